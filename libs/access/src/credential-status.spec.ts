import { ToolError, type Principal } from '@toolfleet/contracts';
import { FakeClock } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { ApiKeys } from './api-keys.js';
import { CredentialStatus, CredentialWatch } from './credential-status.js';
import { MemoryKeyStore } from '../../../test/doubles/memory-key-store.js';

async function setUp() {
  const clock = new FakeClock();
  const store = new MemoryKeyStore();
  const keys = new ApiKeys(store, { pepper: 'a pepper of the spec', environment: 'test' }, clock);
  const status = new CredentialStatus({ keys, hasAdminKey: false, clock });
  const watch = new CredentialWatch(status, clock);
  const { token, key } = await keys.issue({ tenantId: 'acme', client: 'crm' }, 'root');
  const { principal } = await keys.verify(token);
  return { clock, store, keys, status, watch, principal, id: key.id };
}

describe('the credential of an open stream', () => {
  it.each([0, 250, 3_600, 3_999])('ends it within 5 s of its revocation, looked up %i ms before', async (before) => {
    const { clock, keys, status, watch, principal, id } = await setUp();
    let ended = 0;
    watch.watch(principal, () => (ended += 1));
    await clock.run(60_000);
    expect(ended).toBe(0);
    await status.findRefusal(principal);
    await clock.run(before);
    await keys.revoke(id);
    await clock.run(5_000);
    expect([ended, watch.size]).toEqual([1, 0]);
    await clock.run(60_000);
    expect(ended).toBe(1);
  });

  it('ends it when the credential expires', async () => {
    const { clock, watch } = await setUp();
    const jwt: Principal = {
      tenantId: 'acme',
      userId: 'ann',
      roles: [],
      tools: ['*'],
      via: 'jwt',
      expiresAt: clock.now() + 10_000,
    };
    let ended = 0;
    watch.watch(jwt, () => (ended += 1));
    await clock.run(9_900);
    expect(ended).toBe(0);
    await clock.run(1_000);
    expect(ended).toBe(1);
  });

  it('leaves other streams open, and ends with its stream', async () => {
    const { clock, keys, watch, principal, id } = await setUp();
    const other = await keys.verify((await keys.issue({ tenantId: 'acme', client: 'other' }, 'root')).token);
    let ended = 0;
    const leave = watch.watch(other.principal, () => (ended += 1));
    watch.watch(principal, () => undefined);
    await keys.revoke(id);
    await clock.run(10_000);
    expect([ended, watch.size]).toEqual([0, 1]);
    leave();
    await keys.revoke(other.principal.keyId!);
    await clock.run(10_000);
    expect([ended, watch.size]).toEqual([0, 0]);
  });

  it('keeps a live one when the process was suspended', async () => {
    const { clock, status, principal } = await setUp();
    const watch = new CredentialWatch(status, clock);
    let ended = 0;
    watch.watch(principal, () => (ended += 1));
    await clock.run(1_000);
    clock.suspend(9_000);
    await clock.run(10_000);
    expect(ended).toBe(0);
  });

  it.each([
    ['fails', () => Promise.reject(new ToolError('SERVICE_UNAVAILABLE'))],
    ['hangs', () => new Promise<never>(() => undefined)],
  ])('ends it when its store %s for longer than a moment', async (_, findRefusal) => {
    const { clock, status, principal } = await setUp();
    let isAway = false;
    const watch = new CredentialWatch(
      { findRefusal: (who) => (isAway ? findRefusal() : status.findRefusal(who)) },
      clock,
    );
    let ended = 0;
    watch.watch(principal, () => (ended += 1));
    isAway = true;
    await clock.run(3_000);
    isAway = false;
    await clock.run(3_000);
    expect(ended).toBe(0);
    isAway = true;
    await clock.run(6_000);
    expect(ended).toBe(1);
  });
});
