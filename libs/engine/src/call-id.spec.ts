import { expect, it } from 'vitest';
import { newCallId } from './call-id.js';

it('makes UUIDv7 that sort by their time and never repeat', () => {
  const instants = [0, 1, 1_700_000_000_000, 1_700_000_000_001, 2 ** 48 - 1];
  const ids = instants.map((now) => newCallId(now));
  expect(ids.toSorted()).toEqual(ids);
  expect(ids.map((id) => Number.parseInt(id.replace('-', '').slice(0, 12), 16))).toEqual(instants);
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(new Set(Array.from({ length: 1_000 }, () => newCallId(0))).size).toBe(1_000);
});
