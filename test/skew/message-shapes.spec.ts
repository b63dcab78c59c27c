import type { Json } from '@toolfleet/contracts';
import { DEFINITION_REGISTER } from '@toolfleet/contracts/registry';
import { REQUESTS } from '@toolfleet/contracts/requests';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { compileSchema } from '@toolfleet/bounded-schema';
import { describe, expect, it } from 'vitest';
import { reliedOn, shapeOf, without } from './message-shapes.js';
import { readMessages } from './recorded-messages.js';

it('messages of release 0.1.0 match the schemas of their receivers', async () => {
  const recorded = await readMessages('0.1.0');
  const bodies = [
    ...Object.entries(REQUESTS).map(([subject, { schema }]) => ({ subject, schema })),
    { subject: `${SUBJECTS.definitionRegister}.agent`, schema: DEFINITION_REGISTER },
  ].filter(({ subject }) => subject in recorded);
  expect(bodies.length).toBeGreaterThan(8);
  for (const { subject, schema } of bodies) {
    const samples = recorded[subject]?.samples ?? [];
    expect(samples, subject).not.toEqual([]);
    for (const sample of samples) expect(compileSchema(schema).errors(sample), subject).toEqual([]);
  }
});

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

describe('a message of two forms', () => {
  const call = { id: 'a', user: 'ann' };
  const shared = { id: 'b', shared: { least: 1 } };
  const shape = shapeOf([{ asks: [call, shared] }, { asks: [] }]);
  const reader = compileSchema(shape);

  it('has the fields of its form', () => {
    expect(reader.check({ asks: [call, shared] })).toBe(true);
    const incomplete: Json[] = [{ id: 'a' }, { user: 'ann' }, { id: 'b', shared: {} }, { shared: { least: 1 } }];
    for (const ask of incomplete) expect(reader.check({ asks: [ask] }), JSON.stringify(ask)).toBe(false);
  });

  it('loses none of them unnoticed', () => {
    const ways = reliedOn(shape).map((way) => way.join('.'));
    expect(ways).toEqual([
      'asks',
      ...['asks.*.id', 'asks.*.shared', 'asks.*.shared.least', 'asks.*.id', 'asks.*.user'],
    ]);
    for (const way of ways) {
      const changed = without({ asks: [call, shared] }, way.split('.'));
      expect(changed !== undefined && reader.check(changed), way).toBe(false);
    }
    expect(without({ asks: [call] }, ['asks', '*', 'shared', 'least'])).toBeUndefined();
  });
});
