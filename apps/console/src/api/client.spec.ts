import { afterEach, expect, it, vi } from 'vitest';
import { createClient, readAllowance, toSourcePath, toToolsetPath } from './client.js';

afterEach(() => vi.unstubAllGlobals());

/** Requests that a client with this key sends, answered with `status`. */
function recordRequests(key: string | undefined, status: number) {
  const sent: RequestInit[] = [];
  const seen: number[] = [];
  vi.stubGlobal('fetch', (_url: string, init: RequestInit) => {
    sent.push(init);
    return Promise.resolve(new Response('{}', { status }));
  });
  return { client: createClient(key, (response) => seen.push(response.status)), sent, seen };
}

it('sends a key without cookies, and the session cookie only with its header', async () => {
  const withKey = recordRequests('tf_key', 200);
  await withKey.client.request('GET /api/v1/me', {});
  expect(withKey.sent[0]).toMatchObject({ credentials: 'omit', cache: 'no-store', redirect: 'error' });
  expect(new Headers(withKey.sent[0]!.headers).get('authorization')).toBe('Bearer tf_key');
  expect(new Headers(withKey.sent[0]!.headers).has('x-toolfleet-session')).toBe(false);

  const session = recordRequests(undefined, 200);
  await session.client.request('GET /api/v1/me', {});
  expect(session.sent[0]!.credentials).toBe('same-origin');
  expect(new Headers(session.sent[0]!.headers).get('x-toolfleet-session')).toBe('1');
  expect(new Headers(session.sent[0]!.headers).has('authorization')).toBe(false);
});

it('reports refusals to its owner', async () => {
  const { client, seen } = recordRequests('tf_key', 401);
  await expect(client.request('GET /api/v1/me', {})).rejects.toMatchObject({ status: 401 });
  expect(seen).toEqual([401]);
});

it('says that the gateway of the page cannot be reached', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('no network')));
  await expect(createClient('tf_key').request('GET /api/v1/me', {})).rejects.toThrow('The gateway is unreachable: ');
});

it('reads the allowance of responses that carry it', () => {
  const headers = new Headers({ 'x-ratelimit-remaining-minute': '0', 'x-ratelimit-remaining-hour': '12' });
  expect(readAllowance(headers)).toEqual({ leftMinute: 0, leftHour: 12 });
  expect(readAllowance(new Headers())).toBeUndefined();
});

it.each([
  ['mcp/crm', { path: { kind: 'mcp', name: 'crm' }, query: { visibility: 'fleet' } }],
  ['openapi/pets@acme', { path: { kind: 'openapi', name: 'pets@acme' }, query: {} }],
])('the source %s is found by %j', (id, request) => {
  expect(toSourcePath(id)).toEqual(request);
});

it('finds a shared toolset among those of the fleet', () => {
  expect(toToolsetPath('support')).toEqual({ path: { name: 'support' }, query: { visibility: 'fleet' } });
  expect(toToolsetPath('support@acme').query).toEqual({});
});
