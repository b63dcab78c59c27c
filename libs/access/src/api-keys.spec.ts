import { describe, expect, it } from 'vitest';
import { FakeClock } from '@toolfleet/testing';
import type { Principal } from '@toolfleet/contracts';
import { parseKey } from './api-key-format.js';
import { ApiKeys, type ApiKeyRecord } from './api-keys.js';
import { toKeySpec, type KeyRequest } from './key-rights.js';
import { MemoryKeyStore } from '../../../test/doubles/memory-key-store.js';

const SETTINGS = { pepper: 'a pepper of the spec', environment: 'test' };
const refusal = { code: 'UNAUTHENTICATED', message: 'Invalid credentials.' };

function setUp(store = new MemoryKeyStore()) {
  const clock = new FakeClock();
  return { clock, store, keys: new ApiKeys(store, SETTINGS, clock) };
}

describe('API keys', () => {
  it('authenticate as the administrator specified', async () => {
    const { keys } = setUp();
    const spec = { tenantId: 'acme', client: 'crm', userId: 'u1', roles: ['dev'], tools: ['web_*'], tier: 'pro' };
    const { token, key } = await keys.issue(spec, 'root');
    expect((await keys.verify(token)).principal).toEqual({
      tenantId: 'acme',
      userId: 'u1',
      roles: ['dev'],
      tools: ['web_*'],
      via: 'api_key',
      keyId: key.id,
      root: { tenantId: 'acme', userId: 'u1', kind: 'operator' },
      tier: 'pro',
    });
  });

  it('may be bound to a mode of MCP, code only if they may run programs', async () => {
    const { keys } = setUp();
    const spec = { tenantId: 'acme', client: 'agent', mcpMode: 'code' as const };
    const { token, key } = await keys.issue({ ...spec, tools: ['crm_*', 'run_*'] }, 'root');
    expect([key.mcpMode, (await keys.verify(token)).principal.mcpMode]).toEqual(['code', 'code']);
    await expect(keys.issue({ ...spec, tools: ['crm_*'] }, 'root')).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
      message: 'tools must include run_program for mcp_mode "code"',
    });
  });

  it('never store or show the secret', async () => {
    const { keys, store } = setUp();
    const { token, key } = await keys.issue({ tenantId: 'acme', client: 'crm' }, 'root');
    const secret = token.split('_')[3]!;
    expect(JSON.stringify([key, await keys.list(), await store.list()])).not.toContain(secret);
    expect(JSON.stringify([key, await keys.list()])).not.toContain('secretHash');
  });

  it('give one answer for unknown id, wrong secret and other environment; its holder learns what became of a key', async () => {
    const { keys, clock, store } = setUp();
    const live = await keys.issue({ tenantId: 'acme', client: 'a' }, 'root');
    const elsewhere = await new ApiKeys(new MemoryKeyStore(), SETTINGS, clock).issue(
      { tenantId: 'acme', client: 'a' },
      'root',
    );
    const otherPepper = new ApiKeys(store, { ...SETTINGS, pepper: 'a pepper of another fleet' }, clock);
    const revoked = await keys.issue({ tenantId: 'acme', client: 'b' }, 'root');
    await keys.revoke(revoked.key.id);
    const expired = await keys.issue({ tenantId: 'acme', client: 'c', expiresAt: clock.now() + 1_000 }, 'root');
    await expect(keys.verify(expired.token)).resolves.toBeDefined();
    clock.advance(1_000);
    await expect(keys.verify(elsewhere.token)).rejects.toMatchObject(refusal);
    await expect(keys.verify(revoked.token)).rejects.toMatchObject({ ...refusal, message: 'This key was revoked.' });
    await expect(keys.verify(expired.token)).rejects.toMatchObject({ ...refusal, message: 'This key has expired.' });
    // Where the hash of the secret is another one.
    await expect(otherPepper.verify(revoked.token)).rejects.toMatchObject(refusal);
    await expect(otherPepper.verify(expired.token)).rejects.toMatchObject(refusal);
    await expect(otherPepper.verify(live.token)).rejects.toMatchObject(refusal);
    await expect(keys.verify('tf_test_nonsense')).rejects.toMatchObject({
      message: expect.stringMatching(/^Malformed credentials/),
    });
    await expect(keys.verify(live.token)).resolves.toBeDefined();
  });

  it('read the store once for known and unknown ids, and not at all for a typo', async () => {
    const { keys, store, clock } = setUp();
    const asked: string[] = [];
    const find = store.find.bind(store);
    store.find = (id) => {
      asked.push(id);
      return find(id);
    };
    const { token } = await keys.issue({ tenantId: 'acme', client: 'a' }, 'root');
    const unknown = await new ApiKeys(new MemoryKeyStore(), SETTINGS, clock).issue(
      { tenantId: 'acme', client: 'a' },
      'root',
    );
    await keys.verify(token);
    await keys.verify(unknown.token).catch(() => undefined);
    await keys.verify(`${token.slice(0, -1)}!`).catch(() => undefined);
    expect(asked).toEqual([parseKey(token)!.id, parseKey(unknown.token)!.id]);
  });

  it('fail closed with SERVICE_UNAVAILABLE when the store is unavailable', async () => {
    const { keys, store } = setUp();
    const { token } = await keys.issue({ tenantId: 'acme', client: 'a' }, 'root');
    store.find = () => Promise.reject(new Error('ECONNREFUSED'));
    await expect(keys.verify(token)).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  });

  it('allow two live keys per client, so that one can follow the other', async () => {
    const { keys } = setUp();
    const first = await keys.issue({ tenantId: 'acme', client: 'a' }, 'root');
    await keys.issue({ tenantId: 'acme', client: 'a' }, 'root');
    await expect(keys.issue({ tenantId: 'acme', client: 'a' }, 'root')).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
    });
    await keys.issue({ tenantId: 'acme', client: 'b' }, 'root');
    await keys.revoke(first.key.id);
    await expect(keys.issue({ tenantId: 'acme', client: 'a' }, 'root')).resolves.toBeDefined();
  });

  it('revoke only within the given tenant', async () => {
    const { keys } = setUp();
    const { key, token } = await keys.issue({ tenantId: 'acme', client: 'a' }, 'root');
    expect(await keys.revoke(key.id, 'evil')).toBe(false);
    expect(await keys.revoke('unknown0', 'evil')).toBe(false);
    await expect(keys.verify(token)).resolves.toBeDefined();
    expect(await keys.revoke(key.id, 'acme')).toBe(true);
  });

  it('note their last use about once a minute; a failure to do so is ignored', async () => {
    const { keys, store, clock } = setUp();
    const { key, token } = await keys.issue({ tenantId: 'acme', client: 'a' }, 'root');
    const used = async () => (await store.find(key.id))?.lastUsedAt;
    await keys.verify(token);
    const first = clock.now();
    expect(await used()).toBe(first);
    clock.advance(59_000);
    await keys.verify(token);
    expect(await used()).toBe(first);
    clock.advance(1_000);
    await keys.verify(token);
    expect(await used()).toBe(first + 60_000);
    store.touch = () => Promise.reject(new Error('away'));
    clock.advance(60_000);
    await expect(keys.verify(token)).resolves.toBeDefined();
  });

  it.each([
    [{ tenantId: 'a.b', client: 'c' }, 'tenant_id'],
    [{ tenantId: '>', client: 'c' }, 'tenant_id'],
    [{ tenantId: 'a', client: 'c:d' }, 'client'],
    [{ tenantId: 'a', client: 'c', roles: ['x y'] }, 'roles'],
    [{ tenantId: 'a', client: 'c', tools: [] }, 'tools'],
    [{ tenantId: 'a', client: 'c', tools: Array.from({ length: 101 }, (_, i) => `t${i}`) }, 'tools'],
    [{ tenantId: 'a', client: 'c', tools: ['file.*'] }, 'tools'],
    [{ tenantId: 'a', client: 'c', expiresAt: 1 }, 'expires_at'],
    [{ tenantId: 'local', client: 'c' }, 'tenant_id'],
    [{ tenantId: 'a', client: 'c', roles: ['operator'] }, 'roles'],
  ])('refuse %j', async (spec, field) => {
    const { keys } = setUp();
    await expect(keys.issue(spec, 'root')).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
      details: { fields: [field] },
    });
  });
});

describe('the role operator', () => {
  it('counts in the operators’ tenant only, also on older keys that have it', async () => {
    const { keys, store } = setUp();
    const own = await keys.issue({ tenantId: 'operator', client: 'ops', roles: ['operator', 'dev'] }, 'root');
    expect((await keys.verify(own.token)).principal.roles).toEqual(['operator', 'dev']);
    const older = await keys.issue({ tenantId: 'acme', client: 'ops', roles: ['dev'] }, 'root');
    const find = store.find.bind(store);
    store.find = async (id) => {
      const record = await find(id);
      return record && { ...record, roles: ['operator', 'dev'] };
    };
    expect((await keys.verify(older.token)).principal.roles).toEqual(['dev']);
  });

  it('can create keys of the tenant local in local mode', async () => {
    const { store, clock } = setUp();
    const local = new ApiKeys(store, { ...SETTINGS, localTenant: true }, clock);
    await expect(local.issue({ tenantId: 'local', client: 'a' }, 'root')).resolves.toBeDefined();
  });
});

describe('stored keys', () => {
  it('is the HMAC of the key without its checksum', async () => {
    const { keys, store } = setUp();
    const { token, key } = await keys.issue({ tenantId: 'acme', client: 'a' }, 'root');
    const record = (await store.find(key.id)) as ApiKeyRecord;
    const { createHmac } = await import('node:crypto');
    const expected = createHmac('sha256', SETTINGS.pepper)
      .update(token.slice(0, token.lastIndexOf('_')))
      .digest('base64url');
    expect(record.secretHash).toBe(expected);
  });
});

const admin: Principal = {
  tenantId: 'acme',
  userId: 'ada',
  roles: ['admin'],
  tools: ['calc*', 'web_search'],
  tier: 'pro',
  via: 'api_key',
};
const operator: Principal = { tenantId: 'operator', userId: 'ops', roles: ['operator'], tools: ['*'], via: 'api_key' };

describe('a key made by an administrator', () => {
  it('has the tenant, tools and tier of its creator, or fewer tools', () => {
    expect(toKeySpec(admin, { client: 'crm' })).toMatchObject({ tenantId: 'acme', tools: admin.tools, tier: 'pro' });
    expect(toKeySpec(admin, { client: 'crm', tools: ['calculator'], roles: ['admin'] })).toMatchObject({
      tools: ['calculator'],
      roles: ['admin'],
    });
    const limited = { ...admin, projects: ['web-*'] };
    expect(toKeySpec(limited, { client: 'crm' }).projects).toEqual(['web-*']);
    expect(toKeySpec(limited, { client: 'crm', projects: ['web-1'] }).projects).toEqual(['web-1']);
    expect(() => toKeySpec(limited, { client: 'crm', projects: ['shop'] })).toThrow('Your key may not use shop.');
    expect(toKeySpec({ ...admin, projects: ['*'] }, { client: 'crm' }).projects).toBeUndefined();
    expect(toKeySpec({ ...admin, tier: undefined }, { client: 'crm' }).tier).toBeUndefined();
  });

  it.each<[Partial<KeyRequest>, string]>([
    [{ tenantId: 'globex' }, 'tenant_id'],
    [{ tenantId: 'operator' }, 'tenant_id'],
    [{ roles: ['operator'] }, 'roles'],
    [{ tier: 'enterprise' }, 'tier'],
    [{ tools: ['*'] }, 'tools'],
    [{ tools: ['calculator', 'file_read'] }, 'tools'],
  ])('cannot be %j', (request, field) => {
    expect(() => toKeySpec(admin, { client: 'crm', ...request })).toThrow(
      expect.objectContaining({ code: 'PERMISSION_DENIED', details: { fields: [field] } }),
    );
  });
});

describe('a key made by an operator', () => {
  it('may have any tenant, role and tier', () => {
    const request = { client: 'crm', tenantId: 'globex', roles: ['admin'], tier: 'max' };
    expect(toKeySpec(operator, request)).toMatchObject({ ...request, tools: ['*'] });
    expect(toKeySpec(operator, { client: 'ops', roles: ['operator'] })).toMatchObject({ tenantId: 'operator' });
  });
});
