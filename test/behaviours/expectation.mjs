/** What a probe expects of a value, and how values are printed in the table. */

const LABEL = Symbol('label');

/** A separate expectation: `label` is printed, `holds` judges the value. */
export function expectation(label, holds) {
  return Object.assign((value) => holds(value), { [LABEL]: label });
}

export const atLeast = (limit) => expectation(`>= ${limit}`, (value) => typeof value === 'number' && value >= limit);
export const atMost = (limit) => expectation(`<= ${limit}`, (value) => typeof value === 'number' && value <= limit);
export const oneOf = (...values) => expectation(`one of ${values.join(', ')}`, (value) => values.includes(value));
export const absent = expectation('absent', (value) => value === undefined);
export const present = expectation('present', (value) => value !== undefined && value !== null);
/** An array or string with all of these. */
export const including = (...items) =>
  expectation(
    `includes ${items.join(', ')}`,
    (value) => (Array.isArray(value) || typeof value === 'string') && items.every((item) => value.includes(item)),
  );
/** An array or string with none of these. */
export const excluding = (...items) =>
  expectation(
    `without ${items.join(', ')}`,
    (value) => (Array.isArray(value) || typeof value === 'string') && items.every((item) => !value.includes(item)),
  );

/**
 * Whether a value is as expected: a function judges it, a regular expression matches it as a string, an object needs the
 * listed fields, an array needs all items in order; anything else must be equal.
 */
export function matches(expected, value) {
  if (typeof expected === 'function') return expected(value) === true;
  if (expected instanceof RegExp) return typeof value === 'string' && expected.test(value);
  if (Array.isArray(expected)) {
    if (!Array.isArray(value) || value.length !== expected.length) return false;
    return expected.every((item, index) => matches(item, value[index]));
  }
  if (expected !== null && typeof expected === 'object') {
    if (value === null || typeof value !== 'object') return false;
    return Object.entries(expected).every(([field, item]) => matches(item, value[field]));
  }
  return Object.is(expected, value);
}

/** The part of a value that an expectation looks at, so that the table shows what was compared. */
export function relevant(expected, value) {
  if (value === null || typeof value !== 'object' || typeof expected !== 'object' || expected === null) return value;
  if (expected instanceof RegExp) return value;
  if (Array.isArray(expected)) {
    return Array.isArray(value) ? value.map((item, index) => relevant(expected[index], item)) : value;
  }
  return Object.fromEntries(Object.entries(expected).map(([field, item]) => [field, relevant(item, value[field])]));
}

/** One line for a value or an expectation. */
export function show(value) {
  if (typeof value === 'function') return value[LABEL] ?? 'a function';
  if (value instanceof RegExp) return String(value);
  if (Array.isArray(value)) return `[${value.map(show).join(', ')}]`;
  if (value !== null && typeof value === 'object') {
    return `{${Object.entries(value)
      .map(([field, item]) => `${field}: ${show(item)}`)
      .join(', ')}}`;
  }
  return value === undefined ? 'nothing' : JSON.stringify(value);
}
