import { expect, it } from 'vitest';
import { ofSource } from './console-api.js';

it.each([
  ['mcp/crm', { path: { kind: 'mcp', name: 'crm' }, query: { visibility: 'fleet' } }],
  ['openapi/pets@acme', { path: { kind: 'openapi', name: 'pets@acme' }, query: {} }],
])('the source %s is found by %j', (id, request) => {
  expect(ofSource(id)).toEqual(request);
});
