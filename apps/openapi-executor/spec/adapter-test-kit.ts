import { isDeepStrictEqual } from 'node:util';
import type { Json, JsonObject } from '@toolfleet/contracts';
import type { VendorAdapter } from '../src/vendor-adapters/vendor-adapter.js';

/** One expectation about an adapter: the output of a hook for an input. */
export type AdapterCase =
  | {
      hook: 'transformBody';
      operationId: string;
      promptParams?: JsonObject;
      input: Json | undefined;
      expected: Json | undefined;
    }
  | {
      hook: 'transformHeaders';
      operationId: string;
      promptParams?: JsonObject;
      input: Record<string, string>;
      expected: Record<string, string>;
    }
  | { hook: 'transformResponse'; operationId: string; input: Json; expected: Json };

/** Inputs no adapter may fall over: it is called for every operation of its collection, not only for those it knows. */
const ANY_BODIES: readonly (Json | undefined)[] = [
  undefined,
  null,
  'text',
  7,
  true,
  [],
  [null],
  {},
  { metrics: null, a: { b: [] } },
];

/**
 * Checks an adapter: the given cases, and what holds for every adapter: a legal lower-case name, inputs left unchanged,
 * answers that are JSON and headers that are text, no exception for bodies of any shape. Returns the faults in words; an
 * empty list is a pass. Needs no test framework: `expect(adapterFaults(adapter, cases)).toEqual([])`.
 */
export function adapterFaults(adapter: VendorAdapter, cases: readonly AdapterCase[]): string[] {
  const faults: string[] = [];
  if (!/^[a-z0-9_-]{1,64}$/.test(adapter.name))
    faults.push(`name "${adapter.name}" has to be lower case letters, digits, _ or -`);
  for (const item of cases) faults.push(...faultsOfCase(adapter, item));
  for (const input of ANY_BODIES) {
    faults.push(
      ...unharmed(`transformBody(${JSON.stringify(input)})`, input, (body) =>
        adapter.transformBody?.(body, 'unknown', {}),
      ),
    );
    if (input === undefined) continue;
    faults.push(
      ...unharmed(`transformResponse(${JSON.stringify(input)})`, input, (output) =>
        adapter.transformResponse?.(output, 'unknown'),
      ),
    );
  }
  faults.push(...unharmed('transformHeaders({})', {}, (headers) => adapter.transformHeaders?.(headers, 'unknown', {})));
  return faults;
}

function faultsOfCase(adapter: VendorAdapter, item: AdapterCase): string[] {
  const name = `${item.hook}(${item.operationId})`;
  if (!adapter[item.hook]) return [`${name}: the adapter has no such hook`];
  const faults = unharmed(name, item.input, (input) => run(adapter, item, input));
  if (faults.length > 0) return faults;
  const actual = run(adapter, item, structuredClone(item.input));
  if (isDeepStrictEqual(actual, item.expected)) return [];
  return [`${name}: expected ${JSON.stringify(item.expected)}, got ${JSON.stringify(actual)}`];
}

function run(adapter: VendorAdapter, item: AdapterCase, input: AdapterCase['input']): unknown {
  if (item.hook === 'transformBody') {
    return adapter.transformBody?.(
      input as Json | undefined,
      item.operationId,
      structuredClone(item.promptParams ?? {}),
    );
  }
  if (item.hook === 'transformHeaders') {
    const headers = input as Record<string, string>;
    return adapter.transformHeaders?.(headers, item.operationId, structuredClone(item.promptParams ?? {}));
  }
  return adapter.transformResponse?.(input as Json, item.operationId);
}

/** Runs a hook on a frozen copy: it must not throw, change its input, or answer with something that is not JSON. */
function unharmed<T>(name: string, input: T, call: (input: T) => unknown): string[] {
  const copy = structuredClone(input);
  try {
    const answer = call(copy);
    if (!isDeepStrictEqual(copy, input)) return [`${name}: the hook changed its input`];
    if (answer === undefined) return [];
    return isDeepStrictEqual(JSON.parse(JSON.stringify(answer)), answer)
      ? []
      : [`${name}: the answer is not plain JSON`];
  } catch (error) {
    return [`${name}: ${error instanceof Error ? error.message : String(error)}`];
  }
}
