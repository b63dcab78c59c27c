import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { BUILTINS, builtinNames, type Builtins } from './builtins/catalogue.js';
import { valueFault } from './builtins/operands.js';
import { parseModule } from './parse.js';
import { Program } from './program.js';
import { compare, toJson, type Value } from './value.js';

/** Cases of the Open Policy Agent project; third-party data that lies beside the repository, where it is present. */
const FOLDER = fileURLToPath(new URL('../../../../shared/data/rego-conformance', import.meta.url));

/** The categories that docs/policy.md declares. In each of them every case must pass. */
const DECLARED = [
  'aggregates',
  'arithmetic',
  'array',
  'assignments',
  'baseandvirtualdocs',
  'casts',
  'comparisonexpr',
  'completedoc',
  'compositebasedereference',
  'compositereferences',
  'comprehensions',
  'containskeyword',
  'dataderef',
  'defaultkeyword',
  'disjunction',
  'elsekeyword',
  'embeddedvirtualdoc',
  'eqexpr',
  'evaltermexpr',
  'every',
  'functionerrors',
  'functions',
  'helloworld',
  'indirectreferences',
  'inputvalues',
  'intersection',
  'keywordrefs',
  'negation',
  'nestedreferences',
  'objectget',
  'objectkeys',
  'objectremove',
  'objectunion',
  'partialdocconstants',
  'partialiter',
  'partialobjectdoc',
  'partialsetdoc',
  'refheads',
  'sets',
  'sprintf',
  'strings',
  'subset',
  'trim',
  'trimleft',
  'trimprefix',
  'trimright',
  'trimspace',
  'trimsuffix',
  'typebuiltin',
  'typenamebuiltin',
  'undos',
  'union',
  'varreferences',
  'virtualdocs',
  'withkeyword',
];

interface Case {
  note: string;
  query: string;
  modules?: string[];
  data?: Value;
  input?: Value;
  input_term?: string;
  want_result?: Value[];
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
  run: (): Value => {
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
  return JSON.parse(text, (_, value: unknown, context?: { source?: string }) => {
    const big = typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '');
    return big ? BigInt(context!.source!) : value;
  }) as Case[];
}

function evaluate(test: Case): Value[] {
  const run = { strict: test.strict_error ?? false, nowMs: 1_700_000_000_000, spend: () => undefined };
  const program = new Program(
    (test.modules ?? []).map((text, i) => parseModule(text, `module ${i}`)),
    { builtins: WITH_STAND_INS },
  );
  const found: Value[] = [];
  const query = program.query(test.query, (bindings) => {
    found.push(Object.fromEntries([...bindings].map(([name, value]) => [name, toJson(value) as Value])));
  });
  query(program.start(run, inputOf(test), test.data ?? {}));
  return found;
}

/** `input_term` is a term of Rego, so that inputs may hold sets. */
function inputOf({ input, input_term }: Case): Value | undefined {
  if (input_term === undefined) return input;
  const program = new Program([parseModule(`package given\nterm := ${input_term}`, 'input')]);
  const run = { strict: true, nowMs: 0, spend: () => undefined };
  return program.start(run, undefined, {}).valueOf(program.find(['given', 'term'])!);
}

/** Arrays sorted at every depth where the case says that order does not matter. */
function sorted(value: unknown, sort: boolean): Value {
  if (Array.isArray(value)) {
    const items = value.map((item) => sorted(item, sort));
    return sort ? items.toSorted(compare) : items;
  }
  if (typeof value !== 'object' || value === null) return value as Value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, sorted(item, sort)]));
}

describe.skipIf(!existsSync(FOLDER))('conformance with OPA', () => {
  it('declares every category there is', () => {
    const present = readdirSync(FOLDER).flatMap((name) => (name.endsWith('.json') ? [name.slice(0, -5)] : []));
    expect(present.toSorted()).toEqual(DECLARED.toSorted());
  });

  it.each(DECLARED)('%s', (category) => {
    const cases = parseCases(readFileSync(`${FOLDER}/${category}.json`, 'utf8'));
    expect(cases.length).toBeGreaterThan(0);
    for (const test of cases) {
      if (test.want_error_code !== undefined || test.want_error !== undefined) {
        const code = test.want_error_code === undefined ? {} : { code: CODES[test.want_error_code] };
        expect(() => evaluate(test), test.note).toThrow(expect.objectContaining({ name: 'RegoError', ...code }));
      } else {
        const sort = test.sort_bindings ?? false;
        expect(compare(sorted(evaluate(test), sort), sorted(test.want_result ?? [], sort)), test.note).toBe(0);
      }
    }
  });
});

it.each(['http.send({})', 'io.jwt.decode_verify("", {})', 'opa.runtime()'])('%s is no builtin of a policy', (call) => {
  expect(() => new Program([parseModule(`package a\np := ${call}`, 'a.rego')])).toThrow('unsupported function');
});

describe('docs/policy.md', () => {
  const text = readFileSync(new URL('../../../docs/policy.md', import.meta.url), 'utf8');
  const listUnder = (heading: string) => {
    const section = text.split(`## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
    return [...section.matchAll(/`([a-z_][a-z0-9_.]*)`/g)].map((match) => match[1]!);
  };

  it('declares the categories that are tested', () => {
    expect(listUnder('Conformance').toSorted()).toEqual(DECLARED.toSorted());
  });

  it('lists the builtins there are', () => {
    expect(listUnder('Builtins').toSorted()).toEqual(builtinNames());
  });
});
