import type { JsonObject } from '@toolfleet/base';
import { setOwn } from '../json-pointer.js';
import { type CycleBreaker, strongComponents } from './break-cycles.js';
import type { SchemaConverter } from './convert-schema.js';

/** Schemas that reach each other, and the groups they lead to. */
interface Group {
  members: string[];
  next: Set<Group>;
  /** Definitions of a tool that needs exactly these; shared between such tools. */
  definitions?: JsonObject;
}

/** Entries of `$defs` objects that are kept for sharing; a chain of thousands of schemas would fill memory otherwise. */
const MAX_SHARED = 500_000;

/**
 * The `$defs` of tools: the transitive closure of references in their schemas.
 * In large documents thousands of schemas reach each other, so the walk goes over strongly connected groups; the converted
 * schemas are shared by all tools, a `$defs` object by those that need the same.
 */
export class DefsCollector {
  private readonly groups = new Map<string, Group>();
  private readonly seen = new Set<string>();
  private shared = 0;

  constructor(
    private readonly converter: SchemaConverter,
    private readonly cycles: CycleBreaker,
  ) {}

  /** Definitions reached from the targets; undefined for none. Must not be changed. Above `limit` they are not built. */
  collect(targets: ReadonlySet<string>, limit = Number.POSITIVE_INFINITY): JsonObject | 'too_many' | undefined {
    if (targets.size === 0) return undefined;
    const starts = new Set([...targets].map((target) => this.findGroup(target)));
    const [first] = starts;
    if (first && starts.size === 1) return this.collectOne(first, limit);
    const reached = reach(starts, limit);
    return reached ? this.build(reached) : 'too_many';
  }

  private collectOne(group: Group, limit: number): JsonObject | 'too_many' {
    if (group.definitions && limit === Number.POSITIVE_INFINITY) return group.definitions;
    const reached = reach([group], limit);
    if (!reached) return 'too_many';
    const definitions = this.build(reached);
    const size = Object.keys(definitions).length;
    if (this.shared + size <= MAX_SHARED) {
      this.shared += size;
      group.definitions = definitions;
    }
    return definitions;
  }

  private build(groups: Iterable<Group>): JsonObject {
    const definitions = emptyDictionary();
    for (const { members } of groups) {
      for (const member of members) {
        setOwn(definitions, this.converter.names.get(member), this.converter.definition(member).schema);
      }
    }
    return definitions;
  }

  private findGroup(target: string): Group {
    const known = this.groups.get(target);
    if (known) return known;
    // Components come with those they lead to first, so outside references of a member have their group already.
    for (const { members } of strongComponents([target], (node) => this.readTargets(node), this.seen)) {
      const group: Group = { members, next: new Set() };
      for (const member of members) this.groups.set(member, group);
      for (const member of members) {
        for (const next of this.converter.definition(member).targets) {
          const other = this.groups.get(next);
          if (other && other !== group) group.next.add(other);
        }
      }
    }
    return this.groups.get(target) as Group;
  }

  /** Cycles are broken before a definition is looked at: breaking them may add variants to its references. */
  private readTargets(target: string): string[] {
    this.cycles.breakFrom(target);
    return [...this.converter.definition(target).targets];
  }
}

/**
 * An object for members with names of the document. V8 describes a literal that grows by a hidden class for each of its members,
 * which takes more memory than the object and stays until the next full collection.
 */
function emptyDictionary(): JsonObject {
  return Object.setPrototypeOf(Object.create(null), Object.prototype) as JsonObject;
}

/** All groups reached, the starts included; undefined when they have more than `limit` members. */
function reach(starts: Iterable<Group>, limit: number): Set<Group> | undefined {
  const reached = new Set(starts);
  let size = 0;
  for (const group of reached) {
    size += group.members.length;
    if (size > limit) return undefined;
    for (const next of group.next) reached.add(next); // a Set may grow while it is walked
  }
  return reached;
}
