import { expect, test } from 'vitest';
import { FairSlots } from './fair-slots.js';

/** Takes slots until none is left for the tenant. @returns what gives them back */
function fill(slots: FairSlots, tenantId: string): (() => void)[] {
  const taken: (() => void)[] = [];
  for (let release = slots.take(tenantId); release; release = slots.take(tenantId)) taken.push(release);
  return taken;
}

test('one tenant gets three quarters, and every further one finds room', () => {
  const slots = new FairSlots('exchanges', 100);
  const taken = ['a', 'b', 'c', 'd'].map((tenant) => fill(slots, tenant));
  expect(taken.map(({ length }) => length)).toEqual([75, 19, 5, 1]);
  expect(slots.total).toBe(100);
});

test('tenants that keep asking come to equal shares', () => {
  const slots = new FairSlots('exchanges', 100);
  const held = { a: fill(slots, 'a'), b: [] as (() => void)[] };
  for (let round = 0; round < 500; round += 1) {
    for (const tenant of ['a', 'b'] as const) {
      held[tenant].shift()?.();
      held[tenant].push(...fill(slots, tenant));
    }
  }
  expect(Math.abs(held.a.length - held.b.length)).toBeLessThanOrEqual(2);
  expect(held.a.length + held.b.length).toBeGreaterThan(80);
});

test('a slot is given back once', () => {
  const slots = new FairSlots('programs', Infinity, 2);
  const [first, second] = fill(slots, 'a');
  first!();
  first!();
  expect([slots.total, slots.heldBy('a')]).toEqual([1, 1]);
  second!();
  expect([slots.total, slots.heldBy('a')]).toEqual([0, 0]);
  expect(new FairSlots('calls', 1).take('a')).toBeDefined();
});
