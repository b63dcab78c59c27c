import type { Json } from '@toolfleet/contracts';
import { compileSchema } from '@toolfleet/schema';
import { describe, expect, it } from 'vitest';
import { shapeOf } from './message-shapes.js';

const SAMPLES: Json[] = [
  { call_id: 'a', attempt: 1, context: { tenant_id: 'acme' }, arguments: { x: 1 }, scopes: [{ kind: 'day' }] },
  { call_id: 'b', attempt: 2, context: { tenant_id: 'acme', user_id: 'ann' }, arguments: {}, scopes: [], note: null },
];

describe('the shape a reader relies on', () => {
  const shape = compileSchema(shapeOf(SAMPLES));
  const message = { call_id: 'c', attempt: 1, context: { tenant_id: 'x' }, arguments: { y: [] }, scopes: [] };

  it('is that of its samples, and of messages with more optional fields', () => {
    const answers = compileSchema(shapeOf([{ output: { a: 1 } }]));
    for (const output of ['words', null, [1]]) expect(answers.check({ output })).toBe(true);
    for (const sample of SAMPLES) expect(shape.check(sample)).toBe(true);
    expect(shape.check({ ...message, new_field: 1, context: { tenant_id: 'x', new_field: {} } })).toBe(true);
  });

  it.each<[string, Json]>([
    ['a field is gone', { ...message, call_id: undefined } as never],
    ['a field has another name', { ...message, context: { tenant: 'x' } }],
    ['a number is a text', { ...message, attempt: '1' }],
    ['a list became an object', { ...message, scopes: {} }],
    ['an entry of a list lost a field', { ...message, scopes: [{}] }],
    ['arguments became a text', { ...message, arguments: '{}' }],
  ])('is not kept when %s', (_what, changed) => {
    expect(shape.check(JSON.parse(JSON.stringify(changed)) as Json)).toBe(false);
  });
});
