import { describe, expect, it } from 'vitest';
import { FakeClock } from '@toolfleet/testing';
import { UnknownFact, type PolicyInput } from './policy-engine.js';
import { RegoPolicy } from './rego-policy.js';

const INPUT: PolicyInput = {
  tool: 'calculator',
  user: { id: 'ann', tenant: 'acme', roles: ['dev'], via: 'api_key' },
  arguments: { n: 1 },
  origin: 'public',
  entry_point: 'http',
};
const policy = (text: string) => new RegoPolicy([{ name: 'tools.rego', text }], new FakeClock());
const deny = (rules: string, input: Partial<PolicyInput> = {}) =>
  policy(`package tools\n${rules}`).decide({ ...INPUT, ...input }).deny;

describe('decision', () => {
  it('is the members of data.tools.deny, in order', () => {
    expect(
      deny('deny contains "b" if input.tool == "calculator"\ndeny contains "a" if "dev" in input.user.roles'),
    ).toEqual(['a', 'b']);
    expect(deny('deny contains "b" if input.tool == "other"')).toEqual([]);
  });

  it('reads the form of Rego v0 that the published policy has', () => {
    const rules =
      'deny[msg] {\n  input.tool == "file_write"\n  not is_admin(input.user)\n  msg := "file_write requires admin role"\n}\nis_admin(user) if "admin" in user.roles';
    expect(deny(rules, { tool: 'file_write' })).toEqual(['file_write requires admin role']);
    expect(deny(rules, { tool: 'file_write', user: { ...INPUT.user, roles: ['admin'] } })).toEqual([]);
  });

  it.each([
    ['deny := true', ['denied']],
    ['deny := false', []],
    ['deny := ["x"]', ['x']],
    ['deny := {"x": 1}', ['x']],
    ['deny contains {"code": 7} if true', ['{"code": 7}']],
    ['deny if input.tool == "other"', []],
  ])('accepts other shapes: %s', (rules, expected) => {
    expect(deny(rules)).toEqual(expected);
  });
});

describe('questions', () => {
  const decide = (rules: string, input: Partial<PolicyInput> = {}) =>
    policy(`package tools\n${rules}`).decide({ ...INPUT, ...input });

  it('are the members of data.tools.ask, where nothing denies', () => {
    const rules = 'deny contains "no" if input.tool == "other"\nask contains "Really?" if input.arguments.n == 1';
    expect(decide(rules)).toEqual({ deny: [], ask: ['Really?'], rules: ['tools.rego:3'] });
    expect(decide(rules, { arguments: { n: 2 } })).toEqual({ deny: [] });
    expect(decide(rules, { tool: 'other' })).toEqual({ deny: ['no'], rules: ['tools.rego:2'] });
  });

  it('that cannot be evaluated are a denial; a function that is called so is refused', () => {
    const faulty = decide('deny := false\nask contains "x" if startswith(input.arguments.n, "a")');
    expect(faulty).toEqual({ deny: [expect.stringContaining('the policy could not be evaluated: startswith')] });
    expect(() => decide('deny := false\nask(x) := x')).toThrow('data.tools.ask is a function');
  });
});

describe('places', () => {
  const rulesOf = (files: readonly [name: string, text: string][]) =>
    new RegoPolicy(
      files.map(([name, text]) => ({ name, text })),
      new FakeClock(),
    ).decide(INPUT).rules;

  it('are those of the rules that deny, in every file, and of no others', () => {
    const one =
      'package tools\n\ndeny contains "a" if input.tool == "calculator"\ndeny contains "b" if input.tool == "x"';
    const two = 'package tools\ndeny contains msg if {\n  "dev" in input.user.roles\n  msg := "c"\n}\nask contains "q"';
    expect(
      rulesOf([
        ['tools.rego', one],
        ['more.rego', two],
      ]),
    ).toEqual(['more.rego:2', 'tools.rego:3']);
  });

  it('are at most ten, and none where the decision is one value or could not be made', () => {
    const many = Array.from({ length: 12 }, (_, n) => `deny contains "${n}"`).join('\n');
    expect(rulesOf([['tools.rego', `package tools\n${many}`]])).toHaveLength(10);
    expect(rulesOf([['tools.rego', 'package tools\ndeny := ["x"]']])).toBeUndefined();
    const faulty = 'package tools\ndeny contains "a"\ndeny contains "x" if startswith(input.arguments.n, "a")';
    expect(rulesOf([['tools.rego', faulty]])).toBeUndefined();
    expect(rulesOf([['tools.rego', 'package tools\ndeny contains "x" if input.tool == "other"']])).toBeUndefined();
  });
});

describe('a fault of the evaluation is a denial with its reason', () => {
  it.each([
    ['deny contains "x" if startswith(input.arguments.n, "a")', 'startswith: operand 1 must be string but got number'],
    ['deny contains "x" if 1 / (input.arguments.n - 1) > 0', 'div: divide by zero'],
    ['deny contains "x" if to_number(input.tool) > 1', 'to_number: invalid syntax of a number'],
    ['deny contains "x" if p == 3\np := [1, 2][_]', 'complete rules must not produce multiple outputs'],
    ['deny contains "x" if count({1: x | x := [1, 2][_]}) > 1', 'object keys must be unique'],
    ['deny contains "x" if count(numbers.range(1, 100000000)) > 1', 'too many steps'],
    [
      'deny contains "x" if { some a in numbers.range(1, 2000); some b in numbers.range(1, 2000); a + b < 0 }',
      'too many steps',
    ],
  ])('%s', (rules, reason) => {
    const [message] = deny(rules);
    expect(message).toContain('the policy could not be evaluated: ');
    expect(message).toContain(reason);
  });

  it('also when the arguments are nested beyond any stack', () => {
    let deep: { a: unknown } = { a: 1 };
    for (let i = 0; i < 100_000; i++) deep = { a: deep };
    const rules =
      'deny contains "x" if input.arguments == {"a": {"a": 1}}\ndeny contains "y" if count({input.arguments}) > 1';
    expect(deny(rules, { arguments: deep as never })).toEqual([
      'the policy could not be evaluated: the arguments are nested too deeply',
    ]);
  });
});

describe('loading', () => {
  it.each([
    ['package tools\nallow := true', 'no rule data.tools.deny'],
    ['package other\ndeny contains "x" if true', 'no rule data.tools.deny'],
    ['package tools\ndeny(x) := x', 'no rule data.tools.deny'],
    [
      'package tools\ndeny contains x if regex.match("a", x)',
      'tools.rego:2:20: unknown or unsupported function regex.match',
    ],
    [
      'package tools\ndeny contains x if x := http.send({})',
      'tools.rego:2:25: unknown or unsupported function http.send',
    ],
    ['package tools\nviolation { true }', 'tools.rego:2:11: expected if'],
    ['', 'tools.rego:1:1: expected package'],
    // Typos that would make a rule always undefined, so that it never denies.
    ['package tools\ndeny contains "x" if input.argumets.path', 'tools.rego:2:22: input has no field argumets'],
    ['package tools\ndeny contains "x" if input.user.role == "admin"', 'tools.rego:2:22: input.user has no field role'],
    ['package tools\ndeny contains "x" if input.tool.name == "a"', 'tools.rego:2:22: input.tool has no field name'],
    ['package tools\ndeny contains "x" if data.roles[input.user.id]', 'tools.rego:2:22: nothing defines data.roles'],
    ['package tools\nimport data.lib.f\ndeny contains "x" if f.g', 'tools.rego:3:22: nothing defines data.lib'],
    ['package tools\nimport input.user as deny\ndeny contains "x" if true', 'tools.rego:2:1: deny means two things'],
  ])('refuses %j', (text, message) => {
    expect(() => policy(text)).toThrow(message);
  });

  it('takes tables from data.json', () => {
    const rules = {
      name: 'tools.rego',
      text: 'package tools\ndeny contains "closed" if input.tool in data.closed[input.user.tenant]',
    };
    const load = (text: string) => new RegoPolicy([rules, { name: 'data.json', text }], new FakeClock());
    expect(load('{"closed": {"acme": ["calculator"]}}').decide(INPUT).deny).toEqual(['closed']);
    expect(load('{"closed": {"other": ["calculator"]}}').decide(INPUT).deny).toEqual([]);
    expect(() => load('{"open": {}}')).toThrow('nothing defines data.closed');
    expect(() => load('[]')).toThrow('data.json is not a JSON object');
    expect(() => load('{"closed": ')).toThrow('data.json is not a JSON object');
  });

  it('hashes names and texts, whatever the order of the files', () => {
    const a = { name: 'a.rego', text: 'package tools\ndeny contains "x" if false' };
    const b = { name: 'b.rego', text: 'package tools.more\nq := 1' };
    const hash = (files: (typeof a)[]) => new RegoPolicy(files, new FakeClock()).hash;
    expect(hash([a, b])).toBe(hash([b, a]));
    expect(hash([a, b])).not.toBe(hash([a]));
    expect(hash([a])).not.toBe(hash([{ ...a, text: `${a.text} ` }]));
  });
});

describe('judge', () => {
  const unknown = (fact: string): never => {
    throw new UnknownFact(fact);
  };
  const input = (tool: string): PolicyInput => ({
    ...INPUT,
    tool,
    user: {
      ...INPUT.user,
      get roles() {
        return unknown('user.roles');
      },
    },
    get arguments() {
      return unknown('arguments');
    },
  });
  const now = () => unknown('time');
  const judge = (rules: string, tool: string) => policy(`package tools\n${rules}`).judge(input(tool), now);
  const RULES = `
deny contains "admins" if { input.tool == "write"; not "admin" in input.user.roles }
deny contains "closed" if input.tool == "old"
deny contains "big" if { input.tool in {"old", "sum"}; input.arguments.n > 3 }
ask contains "Really?" if { input.tool == "late"; time.now_ns() > 0 }`;

  it('decides where no rule needs an unknown fact, or one that needs none denies', () => {
    expect(judge(RULES, 'read')).toEqual({ deny: [] });
    expect(judge(RULES, 'old')).toEqual({ deny: ['closed'], rules: [expect.stringMatching(/^tools\.rego:\d+$/)] });
  });

  it.each([
    ['write', 'user.roles'],
    ['sum', 'arguments'],
    ['late', 'time'],
  ])('throws for %s, which depends on %s', (tool, fact) => {
    expect(() => judge(RULES, tool)).toThrow(expect.objectContaining({ fact }));
  });
});

describe('decisions that are remembered', () => {
  const decide = (rules: string) => {
    const clock = new FakeClock();
    const engine = new RegoPolicy([{ name: 'tools.rego', text: `package tools\n${rules}` }], clock);
    return { clock, of: (input: Partial<PolicyInput>) => engine.decide({ ...INPUT, ...input }).deny };
  };

  it('are those of calls with the same facts, whatever their arguments are', () => {
    const { of } = decide('deny contains "no" if {\n  input.tool == "other"\n  "dev" in input.user.roles\n}');
    for (const n of [1, 2]) {
      expect(of({ tool: 'other', arguments: { n } })).toEqual(['no']);
      expect(of({ tool: 'other', user: { ...INPUT.user, roles: [] }, arguments: { n } })).toEqual([]);
    }
  });

  it.each([
    ['an argument', 'input.arguments.n == 2'],
    ['the whole input', 'object.get(input, ["arguments", "n"], 0) == 2'],
    ['an argument that a function reads', 'f(input)\nf(call) if call.arguments.n == 2'],
  ])('are not those that depend on %s', (_, condition) => {
    const [first, ...rest] = condition.split('\n');
    const { of } = decide([`deny contains "no" if ${first}`, ...rest].join('\n'));
    expect([1, 2, 1, 2].map((n) => of({ arguments: { n } }))).toEqual([[], ['no'], [], ['no']]);
  });

  it('are not those that depend on the time', () => {
    const { clock, of } = decide('deny contains "late" if time.now_ns() > 1750000000500000000');
    expect(of({})).toEqual([]);
    clock.advance(1_000);
    expect(of({})).toEqual(['late']);
  });
});
