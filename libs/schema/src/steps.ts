import type { Json } from '@toolfleet/contracts';

/**
 * What one validation may cost. Schemas come from remote servers and values from callers and upstreams, and JSON Schema can ask
 * for exponential work: a union whose branches are unions, over `$ref`, twenty levels deep. Compiled validators, patterns and
 * coercion count what they do; beyond the limit they stop.
 *
 * One count for the process: validation never yields, so at most one is running.
 */
let left = Number.POSITIVE_INFINITY;
let counting = false;

/** Steps of every validation, some 5 ms. Values need a few steps for each of their parts. */
const LEAST_STEPS = 100_000;
/** Steps of larger values for each of their parts: a union of 30 forms whose members are checked one by one needs about so many. */
const STEPS_PER_PART = 64;
/** Some 100 ms: more than the parsing of the largest message that NATS carries. */
const MOST_STEPS = 2_000_000;
/** UTF-16 units of text that count as a part of a value. */
const PART_CHARS = 64;

/** Thrown when a validation has used up its steps. */
export class StepsExhausted extends Error {
  constructor() {
    super('The value takes too long to check against its schema');
  }
}

/** Counts work of the validation that runs; without one nothing is counted. @throws StepsExhausted */
export function chargeSteps(steps: number): void {
  left -= steps;
  if (left < 0) throw new StepsExhausted();
}

/**
 * Runs a validation of `value` within its steps: a fixed number, or in proportion to the value when that is not enough. Inside
 * another validation its steps are used. `work` may run twice, so it must not change anything.
 * @throws StepsExhausted and whatever `work` throws
 */
export function withinSteps<T>(value: Json, work: () => T): T {
  if (counting) return work();
  try {
    return counted(LEAST_STEPS, work);
  } catch (error) {
    if (!(error instanceof StepsExhausted)) throw error;
    const limit = Math.min(MOST_STEPS, STEPS_PER_PART * partsOf(value, MOST_STEPS / STEPS_PER_PART));
    if (limit <= LEAST_STEPS) throw error;
    return counted(limit, work);
  }
}

function counted<T>(limit: number, work: () => T): T {
  counting = true;
  left = limit;
  try {
    return work();
  } finally {
    counting = false;
    left = Number.POSITIVE_INFINITY;
  }
}

/** Parts of a value (values and names, long texts as several), counted up to `most`. */
function partsOf(value: Json, most: number): number {
  const open: Json[] = [value];
  let parts = 0;
  for (let item = open.pop(); item !== undefined && parts < most; item = open.pop()) {
    parts += 1;
    if (typeof item === 'string') parts += item.length / PART_CHARS;
    else if (Array.isArray(item)) for (const member of item) open.push(member);
    else if (typeof item === 'object' && item !== null) {
      for (const name of Object.keys(item)) {
        parts += name.length / PART_CHARS;
        open.push(item[name] as Json);
      }
    }
  }
  return Math.min(parts, most);
}
