import { describe, expect, it } from 'vitest';
import { parseModule } from './parse.js';
import { Program } from './program.js';
import { toJson, type RegoValue } from './value.js';

const RUN = { strict: true, nowMs: 1_700_000_000_000, spend: () => undefined };

function load(...texts: string[]): Program {
  return new Program(texts.map((text, i) => parseModule(text, `${'abc'[i]}.rego`)));
}

/** `data.p` of a module, as JSON. */
function p(body: string, input: RegoValue = {}): unknown {
  const program = load(`package t\n${body}`);
  const value = program.start(RUN, input, {}).evaluate(program.find(['t', 'p'])!);
  return value === undefined ? undefined : toJson(value);
}

describe('language', () => {
  it.each<[string, unknown]>([
    ['p := 1 + 2 * 3 - 4 / 2', 5],
    ['p := 7 % 3 if { 1 < 2; 2 <= 2; 3 != 4 }', 1],
    ['p if not input.missing == 1', true],
    ['p if not false', true],
    ['p contains x if some x in [3, 1, 2, 1]', [1, 2, 3]],
    [
      'p contains [k, v] if some k, v in {"a": 1, "b": 2}',
      [
        ['a', 1],
        ['b', 2],
      ],
    ],
    ['p[k] := v if some k, v in ["x", "y"]', { 0: 'x', 1: 'y' }],
    ['p := [x * 10 | some x in [1, 2, 3]; x > 1]', [20, 30]],
    ['p := {x | x := [1, 2, 2][_]}', [1, 2]],
    ['p := {k: upper(v) | some k, v in {"a": "b"}}', { a: 'B' }],
    ['p := {1, 2} | {3}', [1, 2, 3]],
    ['p := {1, 2} & {2}', [2]],
    ['p := [1 == 2, 3 > 1]\nequal(a, b) := "mine"\ngt(a, b) := "mine"', [false, true]],
    ['p := equal(1, 2)\nequal(a, b) := "mine"', 'mine'],
    ['p if { gt := 1; minus := 2; minus > gt; minus - gt == 1 }', true],
    ['p := [x | some x in [1, 2, 3]; not x in {2}]', [1, 3]],
    ['p := n if { some n, "b" in ["a", "b"] }', 1],
    ['p := [i, j] if { [[1, 2], [3, 4]][i][j] == 3 }', [1, 0]],
    ['p := {"a": {"b": 2}}.a.b', 2],
    ['p := f({"k": [1, 2]})\nf({"k": [x, y]}) := x + y', 3],
    ['p contains f(x) if some x in [1, 2]\nf(x) := x * 2', [2, 4]],
    ['p := {1, 2} - {2}', [1]],
    ['default p := "no"\np := "yes" if input.ok', 'no'],
    ['p := "a" if input.x == 1 else := "b" if input.x == 2 else := "c"', 'c'],
    ['p := f(2)\nf(x) := x * y if y := 3', 6],
    ['p := [f(1), f(2)]\nf(1) := "one"\nf(x) := "more" if x > 1', ['one', 'more']],
    ['p if every x in [1, 2] { x > 0 }', true],
    ['p if every x in [1, -2] { x > 0 }', undefined],
    ['p := x if { [x, 1] = [2, y]; y == 1 }', 2],
    ['p := x if { {"a": {"b": x}} = {"a": {"b": 5}} }', 5],
    ['p := x if { y = z; z = 3; x := y }', 3],
    ['p := n if n := count(input.a) with input.a as [1, 2]', 2],
    ['p := n if n := q with input as {"n": 4}\nq := input.n', 4],
    ['p := q.r\nq.r := 1\nq.s := 2', 1],
    ['p := [1 in [1], 2 in {1}, "k", "v" in {"k": "v"}]', [true, false, 'k', true]],
    ['p := ("k", "v" in {"k": "v"})', true],
    ['p := `raw\\n`', 'raw\\n'],
    ['p := "\\u00e9\\n"', 'é\n'],
    ['p := -1.5e1', -15],
    ['p := 9007199254740993 + 1', 9007199254740994n],
    ['p := input.x[_] if false', undefined],
    ['p[msg] {\n\tmsg := "v0"\n}', ['v0']],
    ['p := a.b if a := {"b": 1} # comment', 1],
    ['import rego.v1\np := 1', 1],
    ['p := [lower("ÀİΣ"), upper("straße")]', ['àiσ', 'STRAßE']],
    ['p := trim_space(" \\u0085\\ufeffa\\u3000")', '\ufeffa'],
    ['import input.user as u\np if u == "x"', undefined],
  ])('%s', (text, expected) => {
    expect(p(text)).toEqual(expected);
  });

  it('shares variables between a rule and its comprehensions, not between comprehensions', () => {
    expect(p('p := [a, b] if { a := [x | x := 1]; b := [x | x := 2] }')).toEqual([[1], [2]]);
    expect(p('p := ys if { x = 2; ys := [y | y = [1, 2, 3][x]] }')).toEqual([3]);
    expect(p('p := ys if { ys := [y | y = [1, 2, 3][x]]; x = 2 }')).toEqual([3]);
  });

  it('gives rules of one package a common meaning over several files', () => {
    const program = load('package a\np contains 1', 'package a\np contains 2 if q', 'package a\nq if input.ok');
    expect(toJson(program.start(RUN, { ok: true }, {}).evaluate(program.find(['a', 'p'])!)!)).toEqual([1, 2]);
  });

  it.each([
    ['p := {1, 2}[1]', 1],
    ['p if { x := {"__proto__": 1}; x.__proto__ == 1 }', true],
    ['p if { input.__proto__ }', undefined],
    ['p if { input.constructor }', undefined],
    ['p if { input.toString }', undefined],
    ['p := [][0]', undefined],
    ['p := input.length', undefined],
  ])('sees only own fields: %s', (text, expected) => {
    expect(p(text, {})).toEqual(expected);
  });

  it.each([
    ['p := x if { x := 1; x := 2 }', 'a.rego:2:21', 'declared twice'],
    ['p := x if { x == 1; x := 2 }', 'a.rego:2:21', 'used before it is declared'],
    ['p := x', 'a.rego:2:6', 'unsafe'],
    ['p if not q[_]\nq := []', 'a.rego:2:6', 'unsafe'],
    ['p if x > 1', 'a.rego:2:6', 'unsafe'],
    ['p := regex.match("a+", "a")', 'a.rego:2:6', 'unsupported function regex.match'],
    ['p := http.send({})', 'a.rego:2:6', 'unsupported function http.send'],
    ['p := walk(input)', 'a.rego:2:6', 'unsupported function walk'],
    ['p := count(1, 2, 3)', 'a.rego:2:6', 'wrong number of arguments'],
    ['p { true }', 'a.rego:2:3', 'expected if'],
    ['p = 1 { true }', 'a.rego:2:7', 'expected if'],
    ['f(x) { x }\np := 1', 'a.rego:2:6', 'expected if'],
    ['p', 'a.rego:3:1', 'expected contains, := or if'],
    ['p := q\nq := p', 'a.rego:2:1', 'recursive rules'],
    ['p := f(1)\nf(x) := f(x)', 'a.rego', 'recursive rules'],
    ['p := 1\np.q := 2', 'a.rego:2:1', 'rules below it'],
    ['p := 1\np contains 2', 'a.rego:3:1', 'two ways'],
    ['p := "unterminated', 'a.rego:2:6', 'unterminated'],
    ['p := 1 if { a; }; q', 'a.rego', 'expected'],
    ['p := 01', 'a.rego:2:6', 'not a number'],
    ['p := 1 $ 2', 'a.rego:2:8', 'unexpected character'],
    ['p := [1, 2', 'a.rego', 'expected'],
    ['p := f', 'a.rego:2:6', 'unsafe'],
    ['p := f\nf(x) := x', 'a.rego:2:6', 'is a function'],
    ['import data.x\nimport foo.bar\np := 1', 'a.rego:3:1', 'starts with data or input'],
    ['import future.unknown\np := 1', 'a.rego:2:1', 'unknown import'],
    ['p if q with data as {}\nq := 1', 'a.rego:2:8', 'replaces all rules'],
    ['p if q with foo.bar as 1\nq := 1', 'a.rego:2:8', 'cannot replace'],
    ['input := 1\np := 1', 'a.rego:2:1', 'cannot be a rule'],
    ['import data.x as input\np := 1', 'a.rego:2:1', 'means two things'],
    ['p if x in [1]', 'a.rego:2:6', 'unsafe'],
    ['p if {x} = {1}', 'a.rego:2:6', 'unsafe'],
    ['f(x) := x\nf(x, y) := y\np := 1', 'a.rego:3:1', 'two ways'],
    ['p contains 1 if true else := 2', 'a.rego:2:22', 'new line'],
    ['p := $"x"', 'a.rego:2:6', 'unexpected character'],
    ['p := 2e999', 'a.rego:2:6', 'out of range'],
    [`p := ${'['.repeat(300)}`, 'a.rego:2', 'nested too deeply'],
    ['default p := input.x', 'a.rego:2:1', 'plain value'],
  ])('refuses %s', (text, place, message) => {
    const fault = (() => {
      try {
        load(`package t\n${text}\n`);
        return new Error('loaded');
      } catch (error) {
        return error as Error;
      }
    })();
    expect(fault).toMatchObject({ name: 'RegoError' });
    expect(fault.message).toContain(message);
    expect(fault.message.startsWith(place), fault.message).toBe(true);
  });
});
