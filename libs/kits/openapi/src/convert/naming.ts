import { isJsonObject, type JsonObject } from '@toolfleet/base';
import { sha256Hex } from '@toolfleet/bounded-schema';
import { pointerTokens } from '../json-pointer.js';

/** An operation to be named. */
export interface Nameable {
  operationId?: string;
  method: string;
  path: string;
}

/** Characters of an operationId or path that are looked at: a document may hold one of a megabyte. */
const MAX_READ = 1_000;
const MAX_LENGTH = 64;
const LEGAL = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Names of all operations of a document, in the same order: the operationId, if it has Latin letters or digits, else
 * `<method>_<path>`, sanitised. A legal operationId keeps its name whatever its neighbours are called; equal operationIds
 * get `_2`, `_3` in document order; a name that had to be changed and then meets another gets 6 hex digits of
 * SHA-256(`METHOD path`), so that it does not depend on the order of the document.
 */
export function toolNames(operations: readonly Nameable[], prefix = ''): string[] {
  const names: (string | undefined)[] = operations.map(() => undefined);
  const used = new Set<string>();
  // Thousands of operations have names of their own: only what shares one gets a list.
  const firsts = new Map<string, number>();
  const repeats = new Map<string, number[]>();
  operations.forEach((operation, index) => {
    const raw = prefix + rawName(operation);
    if (!firsts.has(raw)) firsts.set(raw, index);
    else if (repeats.has(raw)) repeats.get(raw)?.push(index);
    else repeats.set(raw, [index]);
  });

  const changed: { base: string; members: number[] }[] = [];
  for (const [raw, first] of firsts) {
    if (LEGAL.test(raw) && operations[first]?.operationId !== undefined) {
      names[first] = raw;
      used.add(raw);
    } else changed.push({ base: sanitise(raw), members: [first, ...(repeats.get(raw) ?? [])] });
  }
  for (const [raw, first] of repeats.size > 0 ? firsts : []) {
    if (names[first] === raw) number(raw, repeats.get(raw) ?? [], names, used);
  }
  const wanted = new Map<string, number>();
  for (const { base } of changed) wanted.set(base, (wanted.get(base) ?? 0) + 1);
  for (const { base, members } of changed) {
    if (base.length <= MAX_LENGTH && wanted.get(base) === 1 && !used.has(base)) {
      names[members[0] as number] = base;
      used.add(base);
      number(base, members.slice(1), names, used);
    } else {
      for (const index of members) names[index] = hashed(base, operations[index] as Nameable, used);
    }
  }
  return names as string[];
}

function rawName({ operationId, method, path }: Nameable): string {
  return isReadable(operationId) ? operationId : `${method.toLowerCase()}_${path}`;
}

/** False for an id of other scripts, of which a name keeps nothing. */
export function isReadable(operationId: string | undefined): operationId is string {
  return operationId !== undefined && /[A-Za-z0-9]/.test(operationId.slice(0, MAX_READ));
}

/** Runs of characters outside the alphabet become one `_`; outer ones go. */
function sanitise(raw: string): string {
  const name = raw
    .slice(0, MAX_READ)
    .replace(/[^A-Za-z0-9-]+/g, (run) => (/^_+$/.test(run) ? run : '_'))
    .replace(/^_+|_+$/g, '');
  return name || 'operation';
}

function number(base: string, members: readonly number[], names: (string | undefined)[], used: Set<string>): void {
  let suffix = 2;
  for (const index of members) {
    let name = fit(base, `_${suffix}`);
    for (; used.has(name); name = fit(base, `_${suffix}`)) suffix += 1;
    suffix += 1;
    names[index] = name;
    used.add(name);
  }
}

function hashed(base: string, { method, path }: Nameable, used: Set<string>): string {
  const key = `${method.toUpperCase()} ${path}`;
  for (let round = 0; ; round += 1) {
    const digest = sha256Hex(round === 0 ? key : `${key} ${round}`).slice(0, 6);
    const name = fit(base, `_${digest}`);
    if (used.has(name)) continue;
    used.add(name);
    return name;
  }
}

/** The suffix stays inside 64 characters. */
function fit(base: string, suffix: string): string {
  return base.slice(0, MAX_LENGTH - suffix.length) + suffix;
}

/** Characters that need no escaping in a pointer or a URI fragment. */
const LEGAL_TOKEN = /^[A-Za-z0-9._-]+$/;

/**
 * Names in `$defs`: the last token of the pointer, sanitised, `_2` on a clash. The schemas of `components` have their
 * names reserved, so that they never depend on the order in which references are met.
 */
export class DefinitionNames {
  private readonly names = new Map<string, string>();
  private readonly used = new Set<string>();

  constructor(root: JsonObject) {
    const components = isJsonObject(root.components) ? root.components : undefined;
    const schemas = components && isJsonObject(components.schemas) ? components.schemas : {};
    for (const name of Object.keys(schemas)) if (LEGAL_TOKEN.test(name) && name !== '__proto__') this.used.add(name);
  }

  /** Name of the target at a canonical pointer. */
  get(pointer: string): string {
    let name = this.names.get(pointer);
    if (name === undefined) {
      name = this.choose(pointer);
      this.names.set(pointer, name);
    }
    return name;
  }

  private choose(pointer: string): string {
    const tokens = pointerTokens(pointer);
    const last = tokens.at(-1) ?? 'root';
    const reserved = tokens.length === 3 && tokens[0] === 'components' && tokens[1] === 'schemas';
    if (reserved && LEGAL_TOKEN.test(last) && last !== '__proto__') return last;
    const base = last.replace(/[^A-Za-z0-9._-]+/g, '_').replace(/^__proto__$/, 'proto') || 'schema';
    let name = base;
    for (let suffix = 2; this.used.has(name); suffix += 1) name = `${base}_${suffix}`;
    this.used.add(name);
    return name;
  }
}
