import { describe, expect, it } from 'vitest';
import { FakeClock } from '@toolfleet/testing';
import { ApiKeys, makeAuthenticate, SignedTokens, VerifiedCache } from '@toolfleet/access';
import { issueDelegation } from '../../../../libs/access/src/signed-tokens.js';
import { MemoryKeyStore } from '../../../../test/doubles/memory-key-store.js';
import { natsPrincipal } from './nats-calls.js';

const refusal = { code: 'UNAUTHENTICATED' };

async function setUp() {
  const clock = new FakeClock();
  const keys = new ApiKeys(new MemoryKeyStore(), { pepper: 'a pepper of the spec', environment: 'test' }, clock);
  const tokens = new SignedTokens('s'.repeat(32), clock);
  const authenticate = makeAuthenticate({ keys, tokens, cache: new VerifiedCache(clock), local: false });
  const { token } = await keys.issue({ tenantId: 'acme', client: 'crm' }, 'root');
  return { clock, tokens, token, trust: { authenticate, local: false, trustTenantSubjects: true } };
}

describe('NATS caller', () => {
  it('is the key in the header, on the bare subject and on its own tenant’s', async () => {
    const { token, trust } = await setUp();
    for (const subject of ['tool.call', 'tool.call.acme', 'tool.batch', 'tool.list.acme', 'tool.cancel']) {
      const principal = await natsPrincipal({ subject, authorization: [`Bearer ${token}`] }, trust);
      expect(principal).toMatchObject({ tenantId: 'acme', via: 'api_key' });
    }
  });

  it('is refused with a key of one tenant on the subject of another', async () => {
    const { token, trust } = await setUp();
    const caller = { subject: 'tool.call.evil', authorization: [`Bearer ${token}`] };
    await expect(natsPrincipal(caller, trust)).rejects.toMatchObject(refusal);
  });

  it('is the tenant of the subject without a key, without any role', async () => {
    const { trust } = await setUp();
    const principal = await natsPrincipal({ subject: 'tool.call.acme', authorization: [] }, trust);
    expect(principal).toEqual({ tenantId: 'acme', userId: 'nats:acme', roles: [], tools: ['*'], via: 'nats_subject' });
  });

  it.each(['operator', 'local'])('is not the reserved tenant %s by its subject alone', async (tenant) => {
    const { trust } = await setUp();
    const caller = { subject: `tool.call.${tenant}`, authorization: [] };
    await expect(natsPrincipal(caller, { ...trust, local: true })).rejects.toMatchObject(refusal);
  });

  it('is refused without a key when the server does not guard the subjects', async () => {
    const { trust } = await setUp();
    const caller = { subject: 'tool.call.acme', authorization: [] };
    await expect(natsPrincipal(caller, { ...trust, trustTenantSubjects: false })).rejects.toMatchObject(refusal);
  });

  it('may omit the key in local mode only, and is not an administrator', async () => {
    const { trust } = await setUp();
    const caller = { subject: 'tool.call', authorization: [] };
    await expect(natsPrincipal(caller, trust)).rejects.toMatchObject(refusal);
    const local = await natsPrincipal(caller, { ...trust, local: true });
    expect(local).toMatchObject({ tenantId: 'local', roles: [], via: 'local' });
  });

  it('may present a delegation token; forged, expired and foreign ones are refused', async () => {
    const { clock, tokens, trust, token } = await setUp();
    const principal = await trust.authenticate({ kind: 'bearer', token });
    const delegated = issueDelegation(tokens, {
      principal,
      callId: 'c1',
      spends: { requestId: 'c1' },
      scopes: ['*'],
      expiresAt: clock.now() + 1_000,
    });
    const call = (subject: string, value: string) =>
      natsPrincipal({ subject, authorization: [`Bearer ${value}`] }, trust);
    expect(await call('tool.call', delegated)).toMatchObject({
      tenantId: 'acme',
      via: 'delegation',
      parentCallId: 'c1',
    });
    await expect(call('tool.call.evil', delegated)).rejects.toMatchObject(refusal);
    await expect(call('tool.call', `${delegated.slice(0, -2)}AA`)).rejects.toMatchObject(refusal);
    clock.advance(60_000);
    await expect(call('tool.call', delegated)).rejects.toMatchObject(refusal);
  });

  it.each(['tool.call.a.b', 'tool.call.', 'tool.call.*', 'tool.call.>', 'tool.calls', 'exec.mcp', 'tool.result.acme'])(
    'is refused on %s',
    async (subject) => {
      const { trust, token } = await setUp();
      const local = { ...trust, local: true };
      await expect(natsPrincipal({ subject, authorization: [] }, local)).rejects.toMatchObject(refusal);
      await expect(natsPrincipal({ subject, authorization: [`Bearer ${token}`] }, local)).rejects.toMatchObject(
        refusal,
      );
    },
  );

  it('is refused with two Authorization headers', async () => {
    const { trust, token } = await setUp();
    const caller = { subject: 'tool.call', authorization: [`Bearer ${token}`, `Bearer ${token}`] };
    await expect(natsPrincipal(caller, trust)).rejects.toMatchObject(refusal);
  });
});
