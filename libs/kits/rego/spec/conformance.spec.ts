import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { BUILTINS, type Builtins } from '../src/builtins/catalogue.js';
import { valueFault } from '../src/builtins/operands.js';
import { parseModule } from '../src/parse.js';
import { Program } from '../src/program.js';
import { compare, toJson, type RegoValue } from '../src/value.js';
import { DECLARED } from './declared-categories.js';

/**
 * A folder per category with files of cases, as the Open Policy Agent project publishes them; `npm run check:rego` gets
 * them and sets the variable.
 */
const FOLDER = process.env.REGO_CASES ?? '';

interface Case {
  note: string;
  query: string;
  modules?: string[];
  data?: RegoValue;
  input?: RegoValue;
  input_term?: string;
  want_result?: RegoValue[];
  want_error_code?: string;
  want_error?: string;
  sort_bindings?: boolean;
  strict_error?: boolean;
}

const CODES: Record<string, string> = {
  eval_conflict_error: 'conflict',
  eval_type_error: 'type_error',
  eval_builtin_error: 'builtin_error',
};

/** Functions that cases replace by `with`; unreplaced they fail. A policy that names them is refused (rego-policy.spec). */
const standIn = (arity: number) => ({
  arity,
  run: (): RegoValue => {
    throw valueFault('not replaced');
  },
});
const WITH_STAND_INS: Builtins = new Map([
  ...BUILTINS,
  ['http.send', standIn(1)],
  ['io.jwt.decode_verify', standIn(2)],
  ['opa.runtime', { arity: 0, run: () => ({}) }],
]);

/** Integers beyond 2^53 keep their digits. */
function parseCases(text: string): Case[] {
  const { cases } = JSON.parse(text, (_, value: unknown, context?: { source?: string }) => {
    const big = typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '');
    return big ? BigInt(context!.source!) : value;
  }) as { cases: (Case & { ignore?: boolean })[] };
  return cases.filter((test) => !test.ignore);
}

function evaluate(test: Case): RegoValue[] {
  const run = { strict: test.strict_error ?? false, nowMs: 1_700_000_000_000, spend: () => undefined };
  const program = new Program(
    (test.modules ?? []).map((text, i) => parseModule(text, `module ${i}`)),
    { builtins: WITH_STAND_INS },
  );
  const found: RegoValue[] = [];
  const query = program.query(test.query, (bindings) => {
    found.push(Object.fromEntries([...bindings].map(([name, value]) => [name, toJson(value) as RegoValue])));
  });
  query(program.start(run, inputOf(test), test.data ?? {}));
  return found;
}

/** `input_term` is a term of Rego, so that inputs may hold sets. */
function inputOf({ input, input_term }: Case): RegoValue | undefined {
  if (input_term === undefined) return input;
  const program = new Program([parseModule(`package given\nterm := ${input_term}`, 'input')]);
  const run = { strict: true, nowMs: 0, spend: () => undefined };
  return program.start(run, undefined, {}).evaluate(program.find(['given', 'term'])!);
}

/** Arrays sorted at every depth where the case says that order does not matter. */
function sorted(value: unknown, sort: boolean): RegoValue {
  if (Array.isArray(value)) {
    const items = value.map((item) => sorted(item, sort));
    return sort ? items.toSorted(compare) : items;
  }
  if (typeof value !== 'object' || value === null) return value as RegoValue;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, sorted(item, sort)]));
}

/** The cases of a category that its project does not switch off. */
function casesOf(category: string): Case[] {
  const files = readdirSync(join(FOLDER, category)).filter((name) => name.endsWith('.json'));
  return files.flatMap((name) => parseCases(readFileSync(join(FOLDER, category, name), 'utf8')));
}

it('has cases', () => {
  expect(existsSync(FOLDER), 'run npm run check:rego, which sets REGO_CASES to a folder of cases').toBe(true);
});

describe('conformance with OPA', () => {
  it.each(DECLARED)('%s', (category) => {
    const cases = casesOf(category);
    expect(cases.length).toBeGreaterThan(0);
    const wrong = cases.flatMap((test) => faultOf(test) ?? []);
    expect(wrong).toEqual([]);
  });
});

/** What is wrong with the evaluator's answer to a case; undefined when it is the wanted one. */
function faultOf(test: Case): string | undefined {
  const wantsError = test.want_error_code !== undefined || test.want_error !== undefined;
  try {
    // The rows of a result are a set; arrays in them are ordered unless the case says otherwise.
    const rows = (result: RegoValue[]) =>
      result.map((row) => sorted(row, test.sort_bindings ?? false)).toSorted(compare);
    const found = rows(evaluate(test));
    if (wantsError) return `${test.note}: no error`;
    if (compare(found, rows(test.want_result ?? [])) === 0) return undefined;
    return `${test.note}: another result`;
  } catch (error) {
    const { name, code, message } = error as { name: string; code?: string; message: string };
    const isWanted = wantsError && name === 'RegoError';
    const wanted = test.want_error_code === undefined ? code : CODES[test.want_error_code];
    return isWanted && code === wanted ? undefined : `${test.note}: ${message}`;
  }
}
