import { expect, test } from 'vitest';
import type { JsonObject } from '@toolfleet/contracts';
import { recordedTool, redactCall } from './redact-call.js';

const redactArguments = (message: string, rawArguments: JsonObject = {}): string =>
  redactCall(message, {
    request: { target: { toolName: 'adder' }, input: { rawArguments } },
    tool: { name: 'adder', input_schema: {} },
  });

test.each([
  ['refused: hunter2!', { nested: [{ password: 'hunter2!' }] }, 'refused: [argument]'],
  ['ValueError: 0123456789abcdef01', { code: 'raise ValueError("0123456789abcdef01")' }, 'ValueError: [argument]'],
  ['HTTP 500: /a/0123456789abcdef%2B', { id: '0123456789abcdef+' }, 'HTTP 500: /a/[argument]%2B'],
  ['The server is down', { id: 'is', other: 7 }, 'The server is down'],
  ['twice 0123456789abcdef and 0123456789abcdef', { a: '-0123456789abcdef-' }, 'twice [argument] and [argument]'],
  ['anything', undefined, 'anything'],
  ["Tool 'adder' refused secret", { code: 'adder', text: 'secret' }, "Tool 'adder' refused [argument]"],
])('%s', (message, args, shown) => {
  expect(redactArguments(message, args)).toBe(shown);
});

test('arguments nested at any depth are masked', () => {
  const depth = 100_000;
  const nested = JSON.parse(`${'['.repeat(depth)}"hunter2!"${']'.repeat(depth)}`);
  expect(redactArguments('refused: hunter2!', nested)).toBe('refused: [argument]');
});

test('a large argument costs little', () => {
  const from = performance.now();
  redactArguments('x'.repeat(2_000), { text: 'y'.repeat(8 * 1024 * 1024) });
  expect(performance.now() - from).toBeLessThan(20_000);
});

test('a secret at the place where a long message is cut is masked or dropped, never shown in part', () => {
  for (let before = 4_060; before <= 4_120; before += 1) {
    const shown = redactArguments(`${'-'.repeat(before)}hunter2!${'.'.repeat(50)}`, { password: 'hunter2!' });
    expect(shown).not.toContain('hu');
    expect(shown.length).toBeLessThan(4_200);
  }
});

test('a run of a long argument is masked wherever the message is cut', () => {
  const secret = '0123456789abcdefghijklmnopqrstuvwxyz';
  for (let before = 4_040; before <= 4_100; before += 1) {
    expect(redactArguments(`${'-'.repeat(before)}${secret}`, { secret })).not.toContain('0123');
  }
});

test('names that the caller made up are masked, and those of the tool are not', () => {
  const schema = { type: 'object', properties: { expression: { type: 'string' } } };
  const rawArguments = { expression: 1, nested: [{ 'sk-live-1': 2 }] };
  const call = { request: { target: { toolName: 'sk-tool-1' }, input: { rawArguments } } };
  const message = 'sk-tool-1: expression must be a string; unknown: sk-live-1';
  expect(redactCall(message, { ...call, tool: { name: 'adder', input_schema: schema } })).toBe(
    'sk-tool-1: expression must be a string; unknown: [argument]',
  );
  expect(redactCall("No tool 'sk-tool-1'; did you mean adder?", call)).toBe(
    "No tool '[argument]'; did you mean adder?",
  );
});

test('a million made-up names cost little', () => {
  const names = Object.fromEntries(Array.from({ length: 1_000_000 }, (_, index) => [`name${index}`, 1]));
  const from = performance.now();
  redactArguments('x'.repeat(2_000), names);
  expect(performance.now() - from).toBeLessThan(20_000);
});

test('names of tools are shown, keys in their place are masked', () => {
  const code = 'await tools.shop_refund_an_order(id=1)';
  const message = "ToolError: shop_refund_an_order: Invalid arguments for tool 'shop_refund_an_order'";
  expect(redactArguments(message, { code })).toBe(message);
  expect(redactArguments("no tool 'aB3dE6gH9jK2mN5pQ8'", { name: 'aB3dE6gH9jK2mN5pQ8' })).toBe("no tool '[argument]'");
  const nameOf = (toolName: string) => recordedTool({ request: { target: { toolName }, input: { rawArguments: {} } } });
  const asked = [
    'search_web',
    'crm.find',
    'ghi_jobs',
    'sk-live-1',
    'aB3dE6gH9jK2mN5pQ8',
    'my password is x',
    'ann@a.example',
  ];
  expect(asked.map(nameOf)).toEqual([
    ...['search_web', 'crm.find', 'ghi_jobs'],
    ...Array.from({ length: 4 }, () => '[unknown]'),
  ]);
});
