import { ToolCallError } from '@toolfleet/client';
import { CREDENTIAL_ROUTES, USAGE_ROUTES, WEBHOOK_ROUTES } from '@toolfleet/contracts/resources';
import { describe, expect, it } from 'vitest';
import { initialTexts, readForm } from './form.js';
import { refusedFields, toRouteFields } from './route-fields.js';

const WEBHOOK = WEBHOOK_ROUTES['POST /api/v1/webhooks'].body;
const KEY = CREDENTIAL_ROUTES['POST /api/v1/keys'].body;
const BUDGET = USAGE_ROUTES['PUT /api/v1/budgets'].body;

describe('fields of a route', () => {
  it('have the order of the form, and labels, help, limits and required marks of the row', () => {
    expect(toRouteFields(WEBHOOK, { tools: {}, url: { label: 'Address' } })).toMatchObject([
      { name: 'tools', label: 'Tools', required: false, input: { kind: 'words' } },
      { name: 'url', label: 'Address', required: true, input: { kind: 'text', maxLength: 2_000 } },
    ]);
    expect(toRouteFields(KEY, { tenant_id: {}, expires_in_seconds: {} })).toMatchObject([
      { label: 'Tenant', help: expect.stringContaining('only operators may name another') },
      { label: 'Expires in seconds', input: { kind: 'number', whole: true, min: 60 } },
    ]);
  });

  it('leave out what is not for the caller, and refuse names that the row does not have', () => {
    expect(toRouteFields(KEY, { client: {}, tenant_id: false }).map(({ name }) => name)).toEqual(['client']);
    expect(() => toRouteFields(KEY, { tenant: {} })).toThrow('the body has no member tenant');
  });

  it('become a body: words and checked events as lists, chosen values as they are, empty members left out', () => {
    const hooks = toRouteFields(WEBHOOK, { url: {}, tools: {}, kinds: { initial: ['call.finished'] } });
    expect(hooks[2]!.input).toMatchObject({ kind: 'checks', options: expect.arrayContaining(['breaker.opened']) });
    const texts = { ...initialTexts(hooks), url: 'https://hooks.example.com', tools: 'crm_*, pay_*' };
    expect(readForm(hooks, texts)).toEqual({
      arguments: { url: 'https://hooks.example.com', tools: ['crm_*', 'pay_*'], kinds: ['call.finished'] },
    });
    const lives = { choices: [[60, 'a minute'] as const, [3_600, 'an hour'] as const], initial: 3_600 };
    const keys = toRouteFields(KEY, { client: {}, roles: {}, expires_in_seconds: lives });
    expect(readForm(keys, { ...initialTexts(keys), client: 'bot' })).toEqual({
      arguments: { client: 'bot', expires_in_seconds: 3_600 },
    });
  });

  it('are checked by the limits of the row before anything is sent', () => {
    const fields = toRouteFields(BUDGET, { subject: {}, id: { required: true }, limit_usd: {}, limit_tokens: {} });
    expect(readForm(fields, { subject: '1', id: ' ', limit_usd: '-1', limit_tokens: '1.5' })).toEqual({
      faults: { id: 'is required', limit_usd: 'must be at least 0', limit_tokens: 'must be an integer' },
    });
  });
});

it('finds the fields that a refusal names', () => {
  const fields = toRouteFields(WEBHOOK, { url: {}, kinds: {} });
  const refuse = (details: object) =>
    refusedFields(new ToolCallError('REQUEST_INVALID', 'must be a known event', { details: { ...details } }), fields);
  expect(refuse({ fields: ['kinds[2]'] })).toEqual({ kinds: 'was refused' });
  expect(refuse({ fields: ['body.url', 'secret'] })).toEqual({ url: 'was refused' });
  expect(refuse({ fields: ['secret'] })).toEqual({});
  expect(refuse({})).toEqual({});
  expect(refusedFields(undefined, fields)).toEqual({});
});
