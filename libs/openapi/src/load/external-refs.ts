import { isJsonObject, type Json } from '@toolfleet/contracts';
import { escapeToken } from '../json-pointer.js';
import { DATA_KEYWORDS, type RefResolver } from './resolve-refs.js';

/** A reference that leaves the document, and where it stands. */
export interface ExternalRef {
  pointer: string;
  target: string;
}

/** What one node holds itself, without following its local references. */
interface Direct {
  external?: ExternalRef;
  targets: Set<string>;
}

/**
 * Finds out which operations reach a reference to another document. Every target of a local reference is looked at once
 * for the whole document, so that the cost is linear in its size, whatever the operations share.
 */
export class ExternalRefs {
  /** Verdict on each target pointer: the external reference it reaches, or null. */
  private readonly verdicts = new Map<string, ExternalRef | null>();

  constructor(private readonly refs: RefResolver) {}

  /** The first external reference reached from the node, or undefined. */
  reachedFrom(node: Json, pointer: string): ExternalRef | undefined {
    const own = this.direct(node, pointer);
    if (own.external) return own.external;
    this.judge(own.targets);
    for (const target of own.targets) {
      const verdict = this.verdicts.get(target);
      if (verdict) return verdict;
    }
    return undefined;
  }

  /** Judges all targets reachable from these: externals are propagated backwards along the references. */
  private judge(start: Iterable<string>): void {
    const usedBy = new Map<string, string[]>();
    const tainted: [string, ExternalRef][] = [];
    const open: string[] = [];
    const meet = (target: string) => {
      const verdict = this.verdicts.get(target);
      if (verdict) tainted.push([target, verdict]);
      if (verdict !== undefined) return;
      this.verdicts.set(target, null);
      open.push(target);
    };
    for (const target of start) meet(target);
    for (let target = open.pop(); target !== undefined; target = open.pop()) {
      const located = this.refs.locate(`#${target}`);
      if (!located) continue;
      const own = this.direct(located.node, located.pointer);
      if (own.external) tainted.push([target, own.external]);
      for (const next of own.targets) {
        const users = usedBy.get(next);
        if (users) users.push(target);
        else usedBy.set(next, [target]);
        meet(next);
      }
    }
    for (let entry = tainted.pop(); entry; entry = tainted.pop()) {
      const [target, external] = entry;
      this.verdicts.set(target, external);
      for (const user of usedBy.get(target) ?? []) if (this.verdicts.get(user) === null) tainted.push([user, external]);
    }
  }

  private direct(node: Json, pointer: string): Direct {
    const own: Direct = { targets: new Set() };
    this.collect(node, pointer, own, false);
    return own;
  }

  private collect(node: Json, pointer: string, own: Direct, names: boolean): void {
    if (own.external) return;
    if (Array.isArray(node)) {
      node.forEach((item, index) => this.collect(item, `${pointer}/${index}`, own, false));
      return;
    }
    if (!isJsonObject(node)) return;
    // Below `properties` and the like every key is a name: one called `$ref` or `example` is a schema.
    if (!names && typeof node.$ref === 'string') this.note(node.$ref, pointer, own);
    for (const key in node) {
      const value = node[key];
      if (typeof value !== 'object' || value === null) continue;
      if (!names && (DATA_KEYWORDS.has(key) || key.startsWith('x-') || (key === 'examples' && Array.isArray(value)))) {
        continue;
      }
      this.collect(value, `${pointer}/${escapeToken(key)}`, own, !names && NAME_MAPS.has(key));
    }
  }

  private note(ref: string, pointer: string, own: Direct): void {
    if (!ref.startsWith('#')) {
      own.external = { pointer: `${pointer}/$ref`, target: ref };
      return;
    }
    const located = this.refs.locate(ref);
    if (located) own.targets.add(located.pointer);
  }
}

/** Members whose keys are names given by the author. */
const NAME_MAPS: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
]);
