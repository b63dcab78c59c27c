import { call, type Det, type Evaluation, type Frame, type Goal } from './evaluation.js';
import { RegoError } from './rego-error.js';
import type { Callee } from './resolved.js';
import { equal, getField, isArray, objectKeys, RegoObject, RegoSet, type RegoValue } from './value.js';

/** `==` and `!=` begin most rules; they go without the list of arguments unless something may replace them. */
export function comparison(left: Det, right: Det, wanted: boolean, callee: Callee): Det {
  return (e, f) => {
    const a = left(e, f);
    const b = a === undefined ? undefined : right(e, f);
    if (b === undefined) return undefined;
    return e.mocks ? call(e, callee, [a!, b]) : equal(a!, b) === wanted;
  };
}

/** Members of a comprehension. */
export type Collector = RegoValue[] | RegoSet | RegoObject;

/** Adds one solution. @throws RegoError conflict for an object with another value at the key */
export function collect(collector: Collector, values: readonly RegoValue[]): void {
  if (Array.isArray(collector)) collector.push(values[0]!);
  else if (collector instanceof RegoSet) collector.add(values[0]!);
  else {
    const [key, value] = values as [RegoValue, RegoValue];
    const before = collector.get(key);
    if (before !== undefined && !equal(before, value)) throw new RegoError('conflict', 'object keys must be unique');
    collector.set(key, value);
  }
}

/** All values, or undefined when one is. */
export function all(dets: readonly Det[], e: Evaluation, f: Frame): RegoValue[] | undefined {
  const values: RegoValue[] = [];
  for (const det of dets) {
    const value = det(e, f);
    if (value === undefined) return undefined;
    values.push(value);
  }
  return values;
}

/** An object of evaluated keys and values; undefined when one of them is. */
export function buildObject(fields: readonly [Det, Det][]): Det {
  return (e, f) => {
    const object = new RegoObject();
    for (const [keyDet, valueDet] of fields) {
      const key = keyDet(e, f);
      const value = key === undefined ? undefined : valueDet(e, f);
      if (value === undefined) return undefined;
      object.set(key!, value);
    }
    return object;
  };
}

/** One step into a value. */
export type ClosureStep = (value: RegoValue, key: RegoValue) => RegoValue | undefined;

/** A step with a known key. */
export function lookupIn(from: Det, step: Det, take: ClosureStep): Det {
  return (e, f) => {
    const whole = from(e, f);
    const key = whole === undefined ? undefined : step(e, f);
    return key === undefined ? undefined : take(whole!, key);
  };
}

/** Leaves a value in a slot and goes on. */
export function store(slot: number, det: Det, then: Goal): Goal {
  return (e, f) => {
    const value = det(e, f);
    if (value === undefined) return false;
    f[slot] = value;
    return then(e, f);
  };
}

/** Leaves each key and value in its slots and goes on; true when that stopped the search. Only collections have any. */
export function iterate(e: Evaluation, whole: RegoValue, f: Frame, key: number, value: number, then: Goal): boolean {
  if (typeof whole !== 'object' || whole === null) return false;
  const { run } = e;
  if (isArray(whole)) {
    for (let i = 0; i < whole.length; i++) {
      run.spend(1);
      f[key] = i;
      f[value] = whole[i]!;
      if (then(e, f)) return true;
    }
  } else if (whole instanceof RegoSet) {
    for (const member of whole.values()) {
      run.spend(1);
      f[key] = member;
      f[value] = member;
      if (then(e, f)) return true;
    }
  } else {
    for (const name of objectKeys(whole)) {
      run.spend(1);
      f[key] = name;
      f[value] = getField(whole, name)!;
      if (then(e, f)) return true;
    }
  }
  return false;
}
