/**
 * Values of Rego. JSON values are used as they are: an input of megabytes is not copied to be asked one question. Objects that
 * a policy builds may have keys of any type and are `RegoObject`s; both kinds compare equal when they hold the same.
 */
export type RegoValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly RegoValue[]
  | RegoSet
  | RegoObject
  | PlainObject;

/** An object as JSON.parse makes it. A field that is `undefined` counts as absent. */
export interface PlainObject {
  readonly [key: string]: RegoValue | undefined;
}

/** True for both kinds of objects. */
export function isObject(value: RegoValue): value is RegoObject | PlainObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof RegoSet);
}

/** True for arrays; narrows better than `Array.isArray` does on a readonly type. */
export function isArray(value: RegoValue): value is readonly RegoValue[] {
  return Array.isArray(value);
}

/** A set of distinct values; walks in Rego's order of values. */
export class RegoSet {
  private readonly members = new Map<string, RegoValue>();
  private ordered?: RegoValue[];

  constructor(values: Iterable<RegoValue> = []) {
    for (const value of values) this.add(value);
  }

  add(value: RegoValue): void {
    const key = toKey(value);
    if (this.members.has(key)) return;
    this.members.set(key, value);
    this.ordered = undefined;
  }

  has(value: RegoValue): boolean {
    return this.members.has(toKey(value));
  }

  get size(): number {
    return this.members.size;
  }

  /** Members in order; not to be changed. */
  values(): readonly RegoValue[] {
    return (this.ordered ??= [...this.members.values()].toSorted(compare));
  }
}

/** An object with keys of any type; walks in the order of its keys. */
export class RegoObject {
  private readonly fields = new Map<string, [RegoValue, RegoValue]>();
  private ordered?: RegoValue[];

  set(key: RegoValue, value: RegoValue): void {
    const name = toKey(key);
    if (!this.fields.has(name)) this.ordered = undefined;
    this.fields.set(name, [key, value]);
  }

  get(key: RegoValue): RegoValue | undefined {
    return this.fields.get(toKey(key))?.[1];
  }

  keys(): readonly RegoValue[] {
    return (this.ordered ??= [...this.fields.values()].map(([key]) => key).toSorted(compare));
  }
}

/** The field of an object, of either kind. */
export function getField(object: RegoObject | PlainObject, key: RegoValue): RegoValue | undefined {
  if (object instanceof RegoObject) return object.get(key);
  return typeof key === 'string' && Object.hasOwn(object, key) ? object[key] : undefined;
}

/** The keys of an object, in order. */
export function objectKeys(object: RegoObject | PlainObject): readonly RegoValue[] {
  if (object instanceof RegoObject) return object.keys();
  return Object.keys(object)
    .filter((key) => object[key] !== undefined)
    .toSorted(compareText);
}

/** One step into a document: element, field or member; undefined when there is none. */
export function lookup(value: RegoValue, key: RegoValue): RegoValue | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (isArray(value)) return typeof key === 'number' && key >= 0 ? value[key] : undefined;
  if (value instanceof RegoSet) return value.has(key) ? key : undefined;
  return getField(value, key);
}

/** Rego's type names. */
export type RegoTypeName = 'null' | 'boolean' | 'number' | 'string' | 'array' | 'object' | 'set';

export function typeName(value: RegoValue): RegoTypeName {
  switch (typeof value) {
    case 'boolean':
    case 'string':
      return typeof value as 'boolean' | 'string';
    case 'number':
    case 'bigint':
      return 'number';
    default:
      if (value === null) return 'null';
      if (isArray(value)) return 'array';
      return value instanceof RegoSet ? 'set' : 'object';
  }
}

const RANK: Record<RegoTypeName, number> = { null: 0, boolean: 1, number: 2, string: 3, array: 4, object: 5, set: 6 };

/** Rego's total order: null, booleans, numbers, strings, arrays, objects, sets. */
export function compare(a: RegoValue, b: RegoValue): number {
  if (a === b) return 0;
  const type = typeName(a);
  const byType = RANK[type] - RANK[typeName(b)];
  if (byType !== 0) return byType;
  switch (type) {
    case 'string':
      return compareText(a as string, b as string);
    case 'array':
      return compareLists(a as readonly RegoValue[], b as readonly RegoValue[]);
    case 'set':
      return compareLists((a as RegoSet).values(), (b as RegoSet).values());
    case 'object':
      return compareObjects(a as RegoObject, b as RegoObject);
    default:
      return (a as number) < (b as number) ? -1 : (a as number) > (b as number) ? 1 : 0;
  }
}

export function equal(a: RegoValue, b: RegoValue): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' && typeof a !== 'bigint') return false;
  return compare(a, b) === 0;
}

function compareLists(a: readonly RegoValue[], b: readonly RegoValue[]): number {
  const shared = Math.min(a.length, b.length);
  for (let i = 0; i < shared; i++) {
    const order = compare(a[i]!, b[i]!);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

function compareObjects(a: RegoObject | PlainObject, b: RegoObject | PlainObject): number {
  const keysA = objectKeys(a);
  const keysB = objectKeys(b);
  const shared = Math.min(keysA.length, keysB.length);
  for (let i = 0; i < shared; i++) {
    const order = compare(keysA[i]!, keysB[i]!) || compare(getField(a, keysA[i]!)!, getField(b, keysB[i]!)!);
    if (order !== 0) return order;
  }
  return keysA.length - keysB.length;
}

/** By code point, as UTF-8 bytes sort; JavaScript's own order puts surrogate pairs before U+E000. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return (x >= 0xd800 && x < 0xe000 ? x + 0x10000 : x) - (y >= 0xd800 && y < 0xe000 ? y + 0x10000 : y);
  }
  return a.length - b.length;
}

/** A text that is the same for equal values and different for others. */
export function toKey(value: RegoValue): string {
  switch (typeof value) {
    case 'string':
      return `"${value}`;
    case 'number':
    case 'bigint':
      return String(value);
    case 'boolean':
      return value ? 't' : 'f';
    default:
      return nestedKey(value);
  }
}

function nestedKey(value: RegoValue): string {
  if (value === null) return 'n';
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value !== 'object') return toKey(value);
  if (isArray(value)) return `[${value.map(nestedKey).join()}]`;
  if (value instanceof RegoSet) return `<${value.values().map(nestedKey).join()}>`;
  return `{${objectKeys(value)
    .map((key) => `${nestedKey(key)}:${nestedKey(getField(value, key)!)}`)
    .join()}}`;
}

/** As JSON: sets become sorted arrays, keys that are not strings become their JSON text. */
export function toJson(value: RegoValue): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (isArray(value)) return value.map(toJson);
  if (value instanceof RegoSet) return value.values().map(toJson);
  const entries = objectKeys(value).map((key) => [
    typeof key === 'string' ? key : JSON.stringify(toJson(key)),
    toJson(getField(value, key)!),
  ]);
  return Object.fromEntries(entries);
}
