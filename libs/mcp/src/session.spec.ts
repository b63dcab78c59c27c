import type { Json } from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import { newSessionId, requestClient, requestFeatures } from './session.js';

const initialize = (clientInfo: Json, capabilities: Json = {}): Json => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities, clientInfo },
});
const call = (clientInfo?: Json): Json => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'echo', _meta: { 'io.modelcontextprotocol/clientInfo': clientInfo ?? null } },
});
const agent = { 'user-agent': 'node (undici) x/1' };

describe('the client of a request', () => {
  it('names itself in the envelope, at initialize, or by its User-Agent', () => {
    const session = newSessionId(initialize({ name: 'claude-code', version: '2.1 β' }, { elicitation: { form: {} } }))!;
    const later = { 'mcp-session-id': session, ...agent };
    expect(requestClient(later, call())).toBe('claude-code/2.1 β');
    expect(requestFeatures(later, undefined)).toMatchObject({ forms: true, urls: false });
    expect(requestClient(later, call({ name: 'cursor', version: '1' }))).toBe('cursor/1');
    expect(requestClient(agent, call({ name: 'cursor', version: '' }))).toBe('cursor');
    expect(requestClient(agent, call())).toBe('node');
    expect(requestClient({}, [call()])).toBeUndefined();
  });

  it('has no control characters, and at most 64 bytes, also in the id of a session', () => {
    const session = newSessionId(initialize({ name: 'ü'.repeat(500), version: '1' }))!;
    expect(session.length).toBeLessThanOrEqual(255);
    expect(requestClient({ 'mcp-session-id': session }, call())).toBe('ü'.repeat(32));
    expect(requestClient({}, call({ name: 'a\nb', version: '1' }))).toBeUndefined();
    expect(requestClient({ 'mcp-session-id': 'session-client.zz-1' }, call())).toBeUndefined();
    expect(requestClient({ 'mcp-session-id': 'session-client.0a-1' }, call())).toBeUndefined();
    expect(requestClient({ 'mcp-session-id': 'other-client.61-1' }, call())).toBeUndefined();
  });
});
