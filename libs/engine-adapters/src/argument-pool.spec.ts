import type { JsonObject } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { ArgumentReader } from '@toolfleet/bounded-schema';
import { afterAll, expect, it } from 'vitest';
import { ArgumentPool } from './argument-pool.js';

const pool = new ArgumentPool(new SystemClock());
afterAll(() => pool.stop());

const rules = { toolName: 'tool' };
const form = (kind: string): JsonObject => ({
  type: 'object',
  properties: {
    kind: { const: kind },
    ...Object.fromEntries(['a', 'b', 'c'].map((name) => [name, { type: 'integer' }])),
  },
  required: ['kind', 'a', 'b', 'c'],
});
/** A union of twenty forms for each of many items: valid, and too costly for an event loop. */
const union: JsonObject = {
  type: 'object',
  properties: {
    items: { type: 'array', items: { oneOf: Array.from({ length: 20 }, (_, index) => form(`k${index}`)) } },
  },
};
const items = (count: number, a: number | string): JsonObject => ({
  items: Array.from({ length: count }, () => ({ kind: 'k19', a, b: 2, c: 3 })),
});
const bounds = () => ({ tenantId: 'acme', signal: new AbortController().signal });

it('reads what an event loop may not check, with conversions and faults', async () => {
  const raw = items(4_000, '1');
  expect(new ArgumentReader(union, rules).read(raw)).toMatchObject({ ok: false, tooCostly: true });
  const read = await pool.read({ schema: union, rules, raw: items(4_000, 1) }, bounds());
  expect(read).toMatchObject({ ok: true, arguments: items(4_000, 1) });
  const wrong = items(4_000, 1);
  wrong.extra = 1;
  (wrong.items as JsonObject[]).push({ kind: 'none' });
  const refused = await pool.read({ schema: union, rules, raw: wrong }, bounds());
  expect(refused).toMatchObject({ ok: false, faults: [expect.objectContaining({ path: '/items/4000' })] });
});

it('refuses what exceeds the steps of a child as invalid, and what exceeds its time with an error that can be retried', async () => {
  // Each level doubles the schemas that are applied.
  const levels = Array.from({ length: 40 }, (_, index): [string, JsonObject] => {
    const rest: JsonObject = index === 39 ? {} : { $ref: `#/$defs/n${index + 1}` };
    const next: JsonObject = { properties: { c: rest } };
    return [`n${index}`, { allOf: [next, { minProperties: 1, ...next }] }];
  });
  const schema = { type: 'object', properties: { x: { $ref: '#/$defs/n0' } }, $defs: Object.fromEntries(levels) };
  const raw = { x: JSON.parse(`${'{"c":'.repeat(40)}1${'}'.repeat(40)}`) };
  const read = await pool.read({ schema, rules, raw }, bounds());
  expect(read).toMatchObject({ ok: false, faults: [{ message: expect.stringContaining('takes too long') }] });
  const hasty = new ArgumentPool(new SystemClock(), 1);
  const late = hasty.read({ schema, rules, raw }, bounds());
  await expect(late).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE', retryAfterMs: expect.any(Number) });
  await hasty.stop();
});
