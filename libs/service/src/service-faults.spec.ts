import { FakeClock } from '@toolfleet/testing';
import { expect, it } from 'vitest';
import { ServiceFaults } from './service-faults.js';

it('replaces the faults of a subject, keeps the time of those that stay, and reports changes only', () => {
  const clock = new FakeClock();
  const faults = new ServiceFaults(clock);
  let changes = 0;
  faults.onChange(() => (changes += 1));
  faults.set('policy', []);
  faults.set('policy', ['one']);
  const [{ since } = { since: '' }] = faults.list();
  clock.advance(60_000);
  faults.set('policy', ['one']);
  expect([faults.list(), changes]).toEqual([[{ subject: 'policy', message: 'one', since }], 1]);
  faults.set('policy', ['two', 'one']);
  expect(faults.list().map((fault) => [fault.message, fault.since === since])).toEqual([
    ['two', false],
    ['one', true],
  ]);
  faults.set('policy', []);
  expect([faults.list(), changes]).toEqual([[], 3]);
});

it('bounds messages and subjects', () => {
  const faults = new ServiceFaults(new FakeClock());
  for (let index = 0; index < 300; index += 1) faults.set(`vendor adapter ${index}`, ['x'.repeat(1_000)]);
  expect(faults.list()).toHaveLength(200);
  expect(faults.list()[0]?.message).toHaveLength(500);
  faults.set('vendor adapter 0', []);
  expect(faults.list()).toHaveLength(199);
});

it('counts faults by the class of their subjects, never by names that tenants choose', () => {
  const faults = new ServiceFaults(new FakeClock());
  faults.set('policy', ['one']);
  faults.set('secret API_KEY_PEPPER', ['two']);
  for (const id of ['a', 'b']) faults.set(`toolset ${id}`, ['ignored']);
  faults.set('something new', ['three']);
  expect(Object.fromEntries(faults.countByClass())).toEqual({ policy: 1, secret: 1, toolset: 2, other: 1 });
});
