/** What users' connections rely on: codes, refreshes and discovery against a server on loopback. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ODD_ANSWERS } from '../../../test/doubles/token-answers.js';
import { discoverServer } from './server-metadata.js';
import { TokenClient } from './token-client.js';

type Answer = { status?: number; headers?: Record<string, string>; body: string };
let server: Server;
let origin: string;
/** By path. */
let answers: Record<string, Answer> = {};
const forms: URLSearchParams[] = [];

beforeAll(async () => {
  server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      if (request.method === 'POST') forms.push(new URLSearchParams(text));
      const { status = 200, headers, body } = answers[request.url!] ?? { status: 404, body: '' };
      response.writeHead(status, headers).end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

const client = () =>
  new TokenClient(
    { issuer: origin, token_endpoint: `${origin}/token` },
    { id: 'fleet', secret: 'of the fleet' },
    fetch,
  );
const metadata = (issuer: string): Answer => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ issuer, token_endpoint: `${origin}/token` }),
});

describe('tokens of a user', () => {
  const checks = { state: 'sent', verifier: 'v'.repeat(43), redirectUri: 'https://fleet.test/back' };

  it.each(ODD_ANSWERS)('are read with %s', async (_what, answer) => {
    answers = { '/token': answer('token-of-ann') };
    const redirect = new URLSearchParams({ code: 'c', state: 'sent' });
    expect(await client().redeem(redirect, checks)).toMatchObject({ access_token: 'token-of-ann' });
    const refresh = { grant_type: 'refresh_token', refresh_token: 'r' };
    expect(await client().request(refresh)).toMatchObject({ access_token: 'token-of-ann' });
    expect(forms.slice(-2).map((form) => form.get('grant_type'))).toEqual(['authorization_code', 'refresh_token']);
  });

  it.each<[string, Answer | undefined, object]>([
    ['refused', { status: 400, body: '{"error":"invalid_grant"}' }, { kind: 'grant', code: 'AUTH_NOT_CONFIGURED' }],
    ['refused to this client', { status: 401, body: '{"error":"invalid_client"}' }, { kind: 'client' }],
    ['not given for the moment', { status: 400, body: 'error=temporarily_unavailable' }, { kind: 'unavailable' }],
    ['not given to so many', { status: 429, body: '{"error":"slow_down"}' }, { kind: 'unavailable' }],
    ['lost in an error', { status: 502, body: '<html>' }, { kind: 'lost', code: 'NETWORK_ERROR' }],
    ['lost in a page', { body: '<html>' }, { kind: 'lost' }],
  ])('may be %s', async (_what, answer, expected) => {
    answers = { '/token': { headers: { 'content-type': 'application/json' }, ...answer! } };
    await expect(client().request({ grant_type: 'refresh_token', refresh_token: 'r' })).rejects.toMatchObject(expected);
  });

  it('are not requested for a redirect of another attempt', async () => {
    const before = forms.length;
    const redirect = new URLSearchParams({ code: 'c', state: 'of-another' });
    await expect(client().redeem(redirect, checks)).rejects.toMatchObject({ kind: 'lost' });
    expect(forms).toHaveLength(before);
  });
});

describe('the metadata of an issuer', () => {
  it.each([
    '/.well-known/oauth-authorization-server/realms/a',
    '/realms/a/.well-known/openid-configuration',
    '/.well-known/openid-configuration/realms/a',
  ])('are found at %s, also for an issuer with another last slash', async (place) => {
    answers = { [place]: metadata(`${origin}/realms/a`) };
    const expected = { issuer: `${origin}/realms/a` };
    expect(await discoverServer(`${origin}/realms/a`, fetch)).toMatchObject(expected);
    expect(await discoverServer(`${origin}/realms/a/`, fetch)).toMatchObject(expected);
  });

  it('of another issuer are refused, with both names', async () => {
    answers = { '/.well-known/oauth-authorization-server/a': metadata(`${origin}/b`) };
    await expect(discoverServer(`${origin}/a`, fetch)).rejects.toMatchObject({
      code: 'AUTH_NOT_CONFIGURED',
      message: `The metadata of the issuer ${origin}/a belong to the issuer ${origin}/b`,
    });
  });

  it('may be missing', async () => {
    answers = {};
    expect(await discoverServer(`${origin}/a`, fetch)).toBeUndefined();
  });
});
