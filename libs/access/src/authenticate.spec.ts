import { describe, expect, it } from 'vitest';
import { FakeClock } from '@toolfleet/testing';
import { ApiKeys } from './api-keys.js';
import { type AuthenticateDeps, makeAuthenticate } from './authenticate.js';
import { CredentialStatus } from './credential-status.js';
import { issueDelegation, SignedTokens } from './signed-tokens.js';
import type { JwtVerifier } from './jwt.js';
import { MemoryKeyStore } from '../../../test/doubles/memory-key-store.js';
import { VerifiedCache } from './verified-cache.js';

const refusal = { code: 'UNAUTHENTICATED', message: 'Invalid credentials.' };

async function setUp(more: Partial<AuthenticateDeps> = {}) {
  const clock = new FakeClock();
  const store = new MemoryKeyStore();
  const keys = new ApiKeys(store, { pepper: 'a pepper of the spec', environment: 'test' }, clock);
  const tokens = new SignedTokens('s'.repeat(32), clock);
  const status = new CredentialStatus({ keys, hasAdminKey: false, clock });
  const authenticate = makeAuthenticate({
    keys,
    tokens,
    status,
    cache: new VerifiedCache(clock),
    local: false,
    ...more,
  });
  const { token, key } = await keys.issue({ tenantId: 'acme', client: 'crm' }, 'root');
  return { clock, store, keys, tokens, authenticate, token, key };
}

describe('authenticate', () => {
  it('takes an API key in either header', async () => {
    const { authenticate, token } = await setUp();
    expect((await authenticate({ kind: 'bearer', token })).tenantId).toBe('acme');
    expect((await authenticate({ kind: 'api_key', token })).tenantId).toBe('acme');
  });

  it('reads the store once while a verification is cached, also for simultaneous calls', async () => {
    const { authenticate, store, token, clock } = await setUp();
    let asked = 0;
    const find = store.find.bind(store);
    store.find = (id) => {
      asked++;
      return find(id);
    };
    await Promise.all(Array.from({ length: 20 }, () => authenticate({ kind: 'bearer', token })));
    clock.advance(3_999);
    await authenticate({ kind: 'bearer', token });
    expect(asked).toBe(1);
    clock.advance(1);
    await authenticate({ kind: 'bearer', token });
    expect(asked).toBe(2);
  });

  it('accepts the operator key outside local mode, and no similar key', async () => {
    const adminKey = 'an operator key of thirty-two characters';
    const { authenticate } = await setUp({ adminKey });
    expect(await authenticate({ kind: 'bearer', token: adminKey })).toMatchObject({
      tenantId: 'operator',
      roles: ['admin', 'operator'],
    });
    expect(await authenticate({ kind: 'api_key', token: adminKey })).toMatchObject({ tenantId: 'operator' });
    await expect(authenticate({ kind: 'bearer', token: `${adminKey} ` })).rejects.toMatchObject(refusal);
    await expect(setUp({ adminKey: 'short' })).rejects.toThrow('at least 32');
  });

  it('refuses a revoked key within 5 s', async () => {
    const { authenticate, keys, key, token, clock } = await setUp();
    await authenticate({ kind: 'bearer', token });
    await keys.revoke(key.id);
    clock.advance(5_000);
    await expect(authenticate({ kind: 'bearer', token })).rejects.toThrow('This key was revoked.');
  });

  it('refuses an expired key at once, although its verification is cached', async () => {
    const { authenticate, keys, clock } = await setUp();
    const { token } = await keys.issue({ tenantId: 'acme', client: 'x', expiresAt: clock.now() + 1_000 }, 'root');
    await authenticate({ kind: 'bearer', token });
    clock.advance(1_000);
    await expect(authenticate({ kind: 'bearer', token })).rejects.toThrow('This key has expired.');
  });

  it('does not cache a refusal', async () => {
    const { authenticate, store, token } = await setUp();
    const find = store.find.bind(store);
    store.find = () => Promise.reject(new Error('away'));
    await expect(authenticate({ kind: 'bearer', token })).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    store.find = find;
    await expect(authenticate({ kind: 'bearer', token })).resolves.toBeDefined();
  });

  it('accepts a JWT as bearer only, also when it was verified just before', async () => {
    const principal = { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'jwt' } as const;
    const jwt = { verify: async () => ({ principal, expiresAt: Number.MAX_SAFE_INTEGER }) } as unknown as JwtVerifier;
    const { authenticate } = await setUp({ jwt });
    expect(await authenticate({ kind: 'bearer', token: 'a.b.c' })).toBe(principal);
    await expect(authenticate({ kind: 'api_key', token: 'a.b.c' })).rejects.toMatchObject(refusal);
  });

  it('accepts a delegation token as bearer only', async () => {
    const { authenticate, tokens, token, clock } = await setUp();
    const principal = await authenticate({ kind: 'bearer', token });
    const delegated = issueDelegation(tokens, {
      principal,
      callId: 'c1',
      spends: { requestId: 'c1' },
      scopes: ['*'],
      expiresAt: clock.now() + 9_000,
    });
    expect(await authenticate({ kind: 'bearer', token: delegated })).toMatchObject({
      via: 'delegation',
      parentCallId: 'c1',
    });
    await expect(authenticate({ kind: 'api_key', token: delegated })).rejects.toMatchObject(refusal);
  });

  it('refuses a delegation token within 5 s of the revocation of the key it acts for', async () => {
    const { authenticate, tokens, token, clock, keys, key } = await setUp();
    const principal = await authenticate({ kind: 'bearer', token });
    const delegated = issueDelegation(tokens, {
      principal,
      callId: 'c1',
      spends: { requestId: 'c1' },
      scopes: ['*'],
      expiresAt: clock.now() + 60_000,
    });
    expect(await authenticate({ kind: 'bearer', token: delegated })).toMatchObject({ expiresAt: clock.now() + 60_000 });
    await keys.revoke(key.id);
    clock.advance(5_000);
    await expect(authenticate({ kind: 'bearer', token: delegated })).rejects.toMatchObject(refusal);
  });

  it.each([
    { kind: 'bearer', token: 'a.b.c' },
    { kind: 'bearer', token: 'x' },
    { kind: 'bearer', token: 'tfd_a.b' },
  ] as const)('refuses %j', async (credential) => {
    const { authenticate } = await setUp();
    await expect(authenticate(credential)).rejects.toMatchObject(refusal);
  });

  it('accepts the development key in local mode, as operator of the tenant local', async () => {
    const devKey = 'any-16-characters';
    const { authenticate } = await setUp({ devKey, local: true });
    expect(await authenticate({ kind: 'api_key', token: devKey })).toMatchObject({
      tenantId: 'local',
      roles: ['admin', 'auditor', 'operator'],
      authenticated: true,
    });
    await expect(authenticate({ kind: 'api_key', token: `${devKey}x` })).rejects.toMatchObject(refusal);
  });

  it('refuses to start with a development key outside local mode, or a short one', async () => {
    const cache = new VerifiedCache(new FakeClock());
    expect(() => makeAuthenticate({ cache, devKey: 'any-16-characters', local: false })).toThrow(RangeError);
    expect(() => makeAuthenticate({ cache, devKey: 'short', local: true })).toThrow(RangeError);
  });
});
