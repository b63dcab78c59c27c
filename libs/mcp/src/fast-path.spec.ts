import type { JsonObject } from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import { readPlainRequest } from './fast-path.js';

const both = 'application/json, text/event-stream';
const modern = (more: JsonObject = {}, meta: JsonObject = {}, headers: Record<string, string> = {}) =>
  readPlainRequest(
    {
      accept: both,
      'content-type': 'application/json',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'echo',
      ...headers,
    },
    {
      jsonrpc: '2.0',
      id: 7,
      method: 'tools/call',
      params: {
        name: 'echo',
        arguments: { a: 1 },
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientCapabilities': {},
          request_id: 'r',
          ...meta,
        },
        ...more,
      },
    },
  );
const legacy = (body: JsonObject = {}, headers: Record<string, string> = {}) =>
  readPlainRequest(
    { accept: both, 'content-type': 'application/json', ...headers },
    { jsonrpc: '2.0', id: 'x', method: 'tools/list', ...body },
  );

describe('the fast path', () => {
  it('reads the two hot methods in their plainest form', () => {
    expect(modern()).toMatchObject({ isModern: true, id: 7, method: 'tools/call', meta: { request_id: 'r' } });
    expect(modern()?.meta).toEqual({ request_id: 'r' });
    expect(legacy()).toMatchObject({ isModern: false, id: 'x', params: {} });
    expect(legacy({}, { 'mcp-session-id': 'session-forms-1' })).toBeDefined();
    expect(legacy({ params: { cursor: 'c' } }, { 'mcp-protocol-version': '2025-11-25' })).toBeDefined();
  });

  it.each<[string, unknown]>([
    ['progress', modern({}, { progressToken: 1 })],
    ['answers to questions', modern({ inputResponses: {} })],
    ['a request state', modern({ requestState: 's' })],
    ['a log level', modern({}, { 'io.modelcontextprotocol/logLevel': 'info' })],
    ['capabilities of a wrong shape', modern({}, { 'io.modelcontextprotocol/clientCapabilities': 1 })],
    ['another revision in the body', modern({}, { 'io.modelcontextprotocol/protocolVersion': '2025-11-25' })],
    ['another revision in the header', modern({}, {}, { 'mcp-protocol-version': '2025-11-25' })],
    ['another method in the header', modern({}, {}, { 'mcp-method': 'tools/list' })],
    ['another name in the header', modern({}, {}, { 'mcp-name': 'Echo' })],
    ['arguments that are not an object', modern({ arguments: [1] })],
    ['a name that needs encoding', modern({ name: 'é' }, {}, { 'mcp-name': 'é' })],
    ['a session of another server', legacy({}, { 'mcp-session-id': 's' })],
    ['a modern header without an envelope', legacy({}, { 'mcp-method': 'tools/list' })],
    ['an unknown revision', legacy({}, { 'mcp-protocol-version': '1999-01-01' })],
    ['a client that takes JSON only', legacy({}, { accept: 'application/json' })],
    ['another content type', legacy({}, { 'content-type': 'text/plain' })],
    ['another method', legacy({ method: 'ping' })],
    ['a notification', legacy({ id: null as never })],
    ['a fractional id', legacy({ id: 1.5 })],
    ['unknown parameters', legacy({ params: { page: 1 } })],
    [
      'a batch',
      readPlainRequest({ accept: both, 'content-type': 'application/json' }, [
        { jsonrpc: '2.0', id: 1, method: 'tools/list' },
      ]),
    ],
    ['no JSON', readPlainRequest({ accept: both, 'content-type': 'application/json' }, undefined)],
  ])('leaves to the SDK: %s', (_what, taken) => expect(taken).toBeUndefined());
});
