import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SystemClock } from '@toolfleet/resilience';
import { FakeClock } from '@toolfleet/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { POOL_LIMITS } from '../session-pool.js';
import { ODD_ANSWERS, ODD_REFUSALS } from '../../../../test/doubles/token-answers.js';
import { createCaller, hashToken, ProtectedServer, bearerToken, verified } from '../../spec/oauth-server.fixture.js';

let server: ProtectedServer;
const closers: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  server = await ProtectedServer.start();
});
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
  await server.stop();
});

function caller(options: Parameters<typeof createCaller>[2], clock = new SystemClock() as never) {
  const made = createCaller(server, clock, options);
  closers.push(made.close);
  return made;
}
const grantsOf = () => server.requests.map(({ form }) => form.get('grant_type'));
const SECRET = { client_id: 'fleet', client_secret: 'a-secret-of-the-fleet' };
/** A client that belongs to the server of the test. */
const client = () => ({ ...SECRET, issuer: server.origin });
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
/** Everybody has called before the first answer goes out. */
function afterAll(expected: number): () => Promise<void> {
  let open = (): void => undefined;
  let arrived = 0;
  const gate = new Promise<void>((resolve) => (open = resolve));
  return () => {
    if ((arrived += 1) === expected) open();
    return gate;
  };
}

describe('where a token comes from', () => {
  it('is discovered from the 401; the configured scope takes precedence, and other headers go to the server only', async () => {
    const options = { oauth: { ...client(), scope: 'write' }, headers: { 'X-Api-Key': 'for-the-server-alone' } };
    expect(await caller({ options }).call()).toMatchObject({ ok: true, text: 'hello' });
    expect(server.requests).toHaveLength(1);
    expect(Object.fromEntries(server.requests[0]?.form ?? [])).toEqual({
      grant_type: 'client_credentials',
      scope: 'write',
      resource: server.url,
    });
    const elsewhere = [...server.metadataRequests, ...server.requests.map(({ headers }) => headers)];
    expect(elsewhere.length).toBeGreaterThan(1);
    for (const headers of elsewhere) expect(headers).not.toHaveProperty('x-api-key');
  });

  it('must be the issuer that the credential belongs to', async () => {
    const options = { oauth: { ...SECRET, issuer: 'https://login.example.com' } };
    expect(await caller({ options }).call()).toMatchObject({
      failure: {
        code: 'AUTH_NOT_CONFIGURED',
        message: expect.stringContaining('the credential belongs to https://login.example.com'),
        details: { state: 'auth_failed' },
      },
    });
    expect(server.requests).toHaveLength(0);
  });

  it.each<[string, () => object]>([
    ['a secret', () => SECRET],
    ['an assertion', () => ({ assertion: 'first.assertion.of-the-platform' })],
    ['a refresh token', () => ({ client_id: 'fleet', refresh_token: 'refresh-token-1' })],
    [
      'an identity provider',
      () => ({
        ...SECRET,
        identity: {
          token_url: `${server.origin}/token`,
          client_id: 'idp',
          client_secret: 's',
          id_token: 'an.id.token',
        },
      }),
    ],
  ])('has to be named for %s: the MCP server alone cannot name who gets it', async (_what, oauth) => {
    expect(await caller({ options: { oauth: oauth() } }).call()).toMatchObject({
      failure: {
        code: 'AUTH_NOT_CONFIGURED',
        message: expect.stringContaining(`names the authorization server ${server.origin}; set oauth.issuer`) as string,
        details: { state: 'auth_failed' },
      },
    });
    expect(server.requests).toEqual([]);
  });
});

describe('the answer of a token endpoint', () => {
  it.each(ODD_ANSWERS)('is read with %s', async (_what, answer) => {
    server.valid.add('token-of-the-suite');
    server.answer = () => answer('token-of-the-suite');
    expect(await caller({ options: { oauth: client() } }).call()).toMatchObject({ ok: true });
    expect(server.admitted.at(-1)).toBe('Bearer token-of-the-suite');
  });

  it.each(ODD_REFUSALS)('is read as a refusal %s', async (_what, answer) => {
    server.answer = () => answer;
    expect(await caller({ options: { oauth: client() } }).call()).toMatchObject({
      failure: { code: 'AUTH_NOT_CONFIGURED', details: { state: 'auth_failed', oauth_error: 'invalid_client' } },
    });
  });

  it('is not shown where it quotes the request', async () => {
    const error_description = 'the secret of-the-platform.first.assertion is unknown';
    server.answer = () => ({ status: 400, body: { error: 'invalid_grant', error_description } });
    const oauth = { assertion: 'of-the-platform.first.assertion', issuer: server.origin };
    const { failure } = await caller({ options: { oauth } }).call();
    expect(failure?.message).toContain('invalid_grant');
    expect(failure?.message).not.toContain('unknown');
  });
});

describe('a client', () => {
  it('authenticates with a signed assertion for the issuer (private_key_jwt)', async () => {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const env = { KEY: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string };
    const oauth = { client_id: 'fleet', private_key: '${KEY}', token_url: `${server.origin}/token` };
    expect(await caller({ options: { oauth }, env }).call()).toMatchObject({ ok: true });
    const { form, headers } = server.requests[0] ?? { form: new URLSearchParams(), headers: {} };
    expect(headers.authorization).toBeUndefined();
    expect(form.get('client_assertion_type')).toBe('urn:ietf:params:oauth:client-assertion-type:jwt-bearer');
    const { claims } = verified(form.get('client_assertion') ?? '', publicKey.export({ format: 'jwk' }));
    expect(claims).toMatchObject({ iss: 'fleet', sub: 'fleet', aud: `${server.origin}/token` });
  });

  it('of a workload sends the latest assertion of its platform and needs no client id', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'workload-'));
    closers.push(async () => rmSync(folder, { recursive: true }));
    const file = join(folder, 'token');
    writeFileSync(file, 'first.assertion.of-the-platform\n');
    const options = { oauth: { assertion: '${WORKLOAD}', issuer: server.origin } };
    const { call } = caller({ options, env: { WORKLOAD_FILE: file } });
    expect(await call()).toMatchObject({ ok: true });
    writeFileSync(file, 'second.assertion.of-the-platform\n');
    server.valid.clear();
    expect(await call()).toMatchObject({ ok: true });
    expect(grantsOf()).toEqual([JWT_BEARER, JWT_BEARER]);
    expect(server.requests.map(({ form }) => form.get('assertion'))).toEqual([
      'first.assertion.of-the-platform',
      'second.assertion.of-the-platform',
    ]);
    expect(server.requests[0]?.form.has('client_id')).toBe(false);
  });

  it('that is refused reports why, requests one token, and does not count for the breaker', async () => {
    server.answer = () => ({
      status: 400,
      body: { error: 'invalid_grant', error_description: 'assertion is expired' },
    });
    const { call } = caller({
      options: { oauth: { assertion: 'old.assertion.of-the-platform', issuer: server.origin } },
    });
    expect(await call()).toMatchObject({
      failure: {
        code: 'AUTH_NOT_CONFIGURED',
        message: expect.stringContaining('assertion is expired'),
        details: { state: 'auth_failed', oauth_error: 'invalid_grant' },
      },
    });
    expect(grantsOf()).toEqual([JWT_BEARER]);
  });

  it('exchanges an ID token at its identity provider', async () => {
    server.answer = ({ form }) =>
      form.get('grant_type') === JWT_BEARER
        ? server.issue()
        : {
            body: {
              access_token: 'word.of.the-provider',
              issued_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
              token_type: 'N_A',
            },
          };
    const identity = { token_url: `${server.origin}/token`, client_id: 'idp', id_token: 'an.id.token' };
    expect(await caller({ options: { oauth: { ...client(), identity } } }).call()).toMatchObject({ ok: true });
    expect(server.requests.map(({ form }) => form.get('subject_token') ?? form.get('assertion'))).toEqual([
      'an.id.token',
      'word.of.the-provider',
    ]);
    expect(server.requests[0]?.form.get('resource')).toBe(server.url);
  });
});

describe('tokens bound to a key (DPoP)', () => {
  it('are sent with a fresh proof for each request, and with the nonce a server requires', async () => {
    const proofs: Record<string, unknown>[] = [];
    server.answer = ({ headers }) => {
      verified(String(headers['dpop']));
      return server.issue({ token_type: 'DPoP' });
    };
    server.refuse = (request) => {
      if (!server.valid.has(bearerToken(request))) return server.challenge('DPoP');
      const { claims } = verified(String(request.headers['dpop']));
      proofs.push(claims);
      const right = claims['htu'] === server.url && claims['ath'] === hashToken(bearerToken(request));
      if (!right || !request.headers.authorization?.startsWith('DPoP ')) return { status: 403, body: {} };
      if (claims['nonce'] === 'n-1') return undefined;
      const headers = { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': 'n-1' };
      return { status: 401, body: {}, headers };
    };
    const { call } = caller({ options: { oauth: { ...client(), dpop: true } } });
    expect(await call()).toMatchObject({ ok: true });
    expect(await call()).toMatchObject({ ok: true });
    expect(proofs.length).toBeGreaterThan(2);
    expect(new Set(proofs.map(({ jti }) => jti)).size).toBe(proofs.length);
    expect(proofs.filter(({ nonce }) => nonce === undefined)).toHaveLength(1);
    expect(server.requests).toHaveLength(1);
  });

  it('are required where they are configured', async () => {
    const { call } = caller({ options: { oauth: { ...client(), dpop: true } } });
    expect(await call()).toMatchObject({
      failure: { code: 'AUTH_NOT_CONFIGURED', message: expect.stringContaining('a token that is not bound to a key') },
    });
    expect(server.admitted).toEqual([]);
  });
});

describe('renewal', () => {
  it('is one request for all calls whose token was refused, however late the refusal arrives', async () => {
    const { call } = caller({ options: { oauth: client() } });
    await call();
    server.valid.clear();
    const together = afterAll(8);
    let late: (() => void) | undefined;
    server.refuse = async (request) => {
      if (server.valid.has(bearerToken(request))) return undefined;
      await together();
      // One refusal is still on its way when the others have got their new token and were served.
      if (!late) await new Promise<void>((resolve) => (late = resolve));
      return server.challenge();
    };
    const calls = Array.from({ length: 8 }, () => call());
    await vi.waitFor(() => expect(server.admitted.filter((sent) => sent.includes('token-2'))).toHaveLength(7), 15_000);
    late?.();
    for (const reply of await Promise.all(calls)) expect(reply).toMatchObject({ ok: true });
    expect(server.requests).toHaveLength(2);
  });

  it('keeps a rotated refresh token when its session was closed', async () => {
    let current = 'refresh-token-1';
    server.answer = ({ form }) => {
      if (form.get('refresh_token') !== current) return { status: 400, body: { error: 'invalid_grant' } };
      current = `refresh-token-${server.requests.length + 1}`;
      return server.issue({ refresh_token: current });
    };
    const options = { oauth: { client_id: 'fleet', refresh_token: 'refresh-token-1', issuer: server.origin } };
    const { call, pool } = caller({ options, limits: { ...POOL_LIMITS, idleCloseMs: 1 } });
    for (let time = 0; time < 3; time += 1) {
      expect(await call()).toMatchObject({ ok: true });
      await vi.waitFor(() => expect(pool.size).toBe(0), 10_000);
      server.valid.clear();
    }
    expect(grantsOf()).toEqual(['refresh_token', 'refresh_token', 'refresh_token']);
  });

  it('may fail while the old token is valid, and is retried', async () => {
    const clock = new FakeClock();
    const { call } = caller({ options: { oauth: { ...SECRET, token_url: `${server.origin}/token` } } }, clock as never);
    expect(await call()).toMatchObject({ ok: true });
    server.answer = () => ({ status: 503, body: 'down' });
    await clock.advance(3_580_000);
    expect(await call()).toMatchObject({ ok: true });
    await clock.advance(30_000);
    expect(await call()).toMatchObject({ failure: { code: 'NETWORK_ERROR', retryable: true } });
    server.answer = () => server.issue();
    expect(await call()).toMatchObject({ ok: true });
    expect(server.requests).toHaveLength(4);
  });
});

it('names the missing scope', async () => {
  const headers = { 'www-authenticate': 'Bearer error="insufficient_scope", scope="tools:write"' };
  const first = server.refuse;
  server.refuse = async (request) => (await first(request)) ?? { status: 403, body: {}, headers };
  expect(await caller({ options: { oauth: client() } }).call()).toMatchObject({
    failure: { code: 'AUTH_NOT_CONFIGURED', message: expect.stringContaining('it requires the scope tools:write') },
  });
});
