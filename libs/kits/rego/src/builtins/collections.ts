import {
  compare,
  getField,
  isArray,
  isObject,
  objectKeys,
  lookup,
  type PlainObject,
  RegoObject,
  RegoSet,
  equal,
  type RegoValue,
} from '../value.js';
import { arrayAt, type Builtin, integerAt, listAt, objectAt, setAt, typeFault } from './operands.js';

type AnyObject = RegoObject | PlainObject;

const count: Builtin = {
  arity: 1,
  run: ([value]) => {
    if (typeof value === 'string') return characters(value);
    if (isArray(value!)) return value.length;
    if (value instanceof RegoSet) return value.size;
    if (isObject(value!)) return objectKeys(value).length;
    throw typeFault(1, 'one of {array, object, set, string}', value!);
  },
};

/** Characters, not UTF-16 units: a surrogate pair is one. */
function characters(text: string): number {
  let pairs = 0;
  for (let i = 1; i < text.length; i++) {
    const low = text.charCodeAt(i);
    if (low < 0xdc00 || low > 0xdfff) continue;
    const high = text.charCodeAt(i - 1);
    if (high >= 0xd800 && high <= 0xdbff) pairs++;
  }
  return text.length - pairs;
}

const extreme = (sign: 1 | -1): Builtin => ({
  arity: 1,
  run: (args) => {
    const items = listAt(args, 0);
    return items.length === 0
      ? undefined
      : items.reduce((best, item) => (compare(item, best) * sign > 0 ? item : best));
  },
});

const slice: Builtin = {
  arity: 3,
  run: (args) => {
    const items = arrayAt(args, 0);
    const from = Math.max(0, integerAt(args, 1));
    const to = Math.min(items.length, integerAt(args, 2));
    return from < to ? items.slice(from, to) : [];
  },
};

function filtered(object: AnyObject, keep: (key: RegoValue) => boolean): RegoObject {
  const result = new RegoObject();
  for (const key of objectKeys(object)) if (keep(key)) result.set(key, getField(object, key)!);
  return result;
}

/** Keys given as array, set, or the keys of an object. */
function keysAt(args: readonly RegoValue[], index: number): RegoSet {
  const value = args[index]!;
  if (isObject(value)) return new RegoSet(objectKeys(value));
  if (isArray(value) || value instanceof RegoSet) return new RegoSet(listAt(args, index));
  throw typeFault(index + 1, 'one of {object, set, array}', value);
}

/** The fields of an object that have, or have not, one of the keys. */
const selection = (isKept: boolean): Builtin => ({
  arity: 2,
  run: (args) => {
    const keys = keysAt(args, 1);
    return filtered(objectAt(args, 0), (key) => keys.has(key) === isKept);
  },
});

/** The right side wins, except that two objects are merged. */
function merged(a: RegoValue, b: RegoValue): RegoValue {
  if (!isObject(a) || !isObject(b)) return b;
  const result = filtered(a, () => true);
  for (const key of objectKeys(b)) {
    const before = result.get(key);
    const value = getField(b, key)!;
    result.set(key, before === undefined ? value : merged(before, value));
  }
  return result;
}

const objectGet: Builtin = {
  arity: 3,
  run: (args) => {
    const [, key, fallback] = args as [RegoValue, RegoValue, RegoValue];
    const object = objectAt(args, 0);
    let value: RegoValue | undefined = object;
    for (const step of isArray(key) ? key : [key]) {
      value = value === undefined ? undefined : lookup(value, step);
      if (value === undefined) return fallback;
    }
    return value;
  },
};

/** True when all of `part` is in `whole`: fields by value (objects within them recursively), members, elements in a row. */
function isSubset(whole: RegoValue, part: RegoValue): boolean {
  if (isObject(whole) && isObject(part)) {
    return objectKeys(part).every((key) => {
      const field = getField(whole, key);
      const wanted = getField(part, key)!;
      if (field === undefined) return false;
      return isComposite(field) && isComposite(wanted) ? isSubset(field, wanted) : equal(field, wanted);
    });
  }
  if (whole instanceof RegoSet && part instanceof RegoSet) return part.values().every((item) => whole.has(item));
  if (isArray(whole) && part instanceof RegoSet)
    return part.values().every((item) => whole.some((other) => equal(item, other)));
  if (isArray(whole) && isArray(part)) {
    for (let at = 0; at + part.length <= whole.length; at++) {
      if (part.every((item, i) => equal(item, whole[at + i]!))) return true;
    }
  }
  return false;
}

const isComposite = (value: RegoValue): boolean => typeof value === 'object' && value !== null;

const subset: Builtin = {
  arity: 2,
  run: ([whole, part]) => {
    const comparable =
      (isObject(whole!) && isObject(part!)) ||
      (whole instanceof RegoSet && part instanceof RegoSet) ||
      (isArray(whole!) && (isArray(part!) || part instanceof RegoSet));
    if (!comparable) throw typeFault(1, 'both of one kind (object, set, array), or an array and a set,', whole!);
    return isSubset(whole!, part!);
  },
};

/** Functions on arrays, objects and sets. */
export const COLLECTION_BUILTINS: Record<string, Builtin> = {
  count,
  max: extreme(1),
  min: extreme(-1),
  sort: { arity: 1, run: (args) => listAt(args, 0).toSorted(compare) },
  'array.concat': { arity: 2, run: (args) => [...arrayAt(args, 0), ...arrayAt(args, 1)] },
  'array.reverse': { arity: 1, run: (args) => arrayAt(args, 0).toReversed() },
  'array.slice': slice,
  'array.flatten': { arity: 1, run: (args) => arrayAt(args, 0).flatMap((item) => (isArray(item) ? item : [item])) },
  'object.get': objectGet,
  'object.keys': { arity: 1, run: (args) => new RegoSet(objectKeys(objectAt(args, 0))) },
  'object.remove': selection(false),
  'object.filter': selection(true),
  'object.union': { arity: 2, run: (args) => merged(objectAt(args, 0), objectAt(args, 1)) },
  'object.union_n': {
    arity: 1,
    run: (args) => arrayAt(args, 0).reduce<RegoValue>((all, _, i) => merged(all, objectAt(arrayAt(args, 0), i)), {}),
  },
  'object.subset': subset,
  union: {
    arity: 1,
    run: (args) =>
      new RegoSet(
        setAt(args, 0)
          .values()
          .flatMap((_, i, sets) => [...setAt(sets, i).values()]),
      ),
  },
  intersection: {
    arity: 1,
    run: (args) => {
      const sets = setAt(args, 0).values();
      if (sets.length === 0) return new RegoSet();
      return new RegoSet(
        setAt(sets, 0)
          .values()
          .filter((item) => sets.every((_, i) => setAt(sets, i).has(item))),
      );
    },
  },
  'internal.member_2': {
    arity: 2,
    run: ([item, domain]) => {
      if (domain instanceof RegoSet) return domain.has(item!);
      if (isArray(domain!)) return domain.some((other) => equal(item!, other));
      return isObject(domain!) && objectKeys(domain).some((key) => equal(getField(domain, key)!, item!));
    },
  },
  'internal.member_3': {
    arity: 3,
    run: ([key, item, domain]) => {
      const found = lookup(domain!, key!);
      return found !== undefined && equal(found, item!);
    },
  },
};
