import { PRESENTED_TOKEN, type Principal } from '@toolfleet/contracts';
import { FakeClock } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { MemoryKeyStore } from '../../../test/doubles/memory-key-store.js';
import { ApiKeys } from './api-keys.js';
import { PASSED_ON, toChangedKeySpec, toKeySpec, type KeyRequest } from './key-rights.js';

const END = 10_000_000;
const maker: Required<Omit<Principal, `parent${string}` | 'authenticated'>> = {
  tenantId: 'acme',
  userId: 'ada',
  roles: ['admin', 'finance'],
  rights: ['read_bodies'],
  tools: ['calc*', 'web_search'],
  projects: ['web-*'],
  toolset: { name: 'sup', version: 3, bound: 'to_version' },
  tier: 'pro',
  mcpMode: 'search',
  via: 'api_key',
  sessionId: 's1',
  keyId: 'maker',
  root: { tenantId: 'acme', userId: 'zoe', kind: 'sign_in' },
  expiresAt: END,
  [PRESENTED_TOKEN]: 'a token',
};

describe('a key', () => {
  it('has every right of its maker, which is given to it in one of its fields', async () => {
    const store = new MemoryKeyStore();
    const keys = new ApiKeys(store, { pepper: 'a-pepper-for-tests-0123', environment: 'test' }, new FakeClock(1_000));
    // Rights follow from the names of roles when the key is used.
    const { keyId: _none, rights: _ofRoles, sessionId: _ends, [PRESENTED_TOKEN]: _presented, ...root } = maker;
    const request = { client: 'c', userId: root.userId, roles: [...root.roles], mcpMode: root.mcpMode };
    const { key, token } = await keys.issue(toKeySpec(root, request), 'ada');
    const { principal } = await keys.verify(token);
    expect(principal).toEqual({ ...root, keyId: key.id, root: { ...root.root, kind: 'creator' } });
    const passedOn = Object.entries(PASSED_ON).flatMap(([field, by]) => (by === null ? [] : [field]));
    expect([...Object.keys(principal), 'rights'].toSorted()).toEqual([...passedOn, 'via'].toSorted());
  });

  it.each<[KeyRequest, string]>([
    [{ client: 'c', tenantId: 'globex' }, 'tenant_id'],
    [{ client: 'c', roles: ['sales'] }, 'roles'],
    [{ client: 'c', tools: ['calc*', '*'] }, 'tools'],
    [{ client: 'c', projects: ['*'] }, 'projects'],
    [{ client: 'c', toolset: 'sup' }, 'toolset'],
    [{ client: 'c', toolset: 'sup@4' }, 'toolset'],
    [{ client: 'c', tier: 'enterprise' }, 'tier'],
    [{ client: 'c', expiresAt: END + 1 }, 'expires_in_seconds'],
  ])('cannot be %j', (request, field) => {
    expect(() => toKeySpec(maker, request)).toThrow(
      expect.objectContaining({ code: 'PERMISSION_DENIED', details: { fields: [field] } }),
    );
  });

  it.each<[string, Partial<Principal>, Omit<KeyRequest, 'client'>, string | undefined]>([
    ['its maker', {}, {}, 'ada'],
    ['its maker by name', { roles: [] }, { userId: 'ada' }, 'ada'],
    ['no other user for an administrator', {}, { userId: 'bob' }, undefined],
    ['another user with the right to it', { rights: ['mint_for_users'] }, { userId: 'bob' }, 'bob'],
    ['no user of another tenant', { rights: ['all_tenants'], tenantId: 'operator' }, { tenantId: 'acme' }, undefined],
    ['the client for operators', { roles: ['operator'] }, {}, 'c'],
    ['a service account for an administrator', {}, { serviceAccount: 'bot' }, 'service:bot'],
    ['no service account for a member', { roles: [] }, { serviceAccount: 'bot' }, undefined],
  ])('is for %s', (_whom, by, request, userId) => {
    const make = () => toKeySpec({ ...maker, ...by }, { client: 'c', roles: [], ...request }).userId;
    if (userId !== undefined) expect(make()).toBe(userId);
    else expect(make).toThrow(expect.objectContaining({ code: 'PERMISSION_DENIED' }));
  });

  it('has a built-in role only if its maker has all rights of the role', () => {
    const { rights: _none, ...admin } = maker;
    expect(toKeySpec(admin, { client: 'c', roles: ['member', 'approver', 'admin'] }).roles).toHaveLength(3);
    expect(() => toKeySpec(admin, { client: 'c', roles: ['approver', 'auditor'] })).toThrow('lacks the roles auditor');
    expect(toKeySpec(maker, { client: 'c', roles: ['auditor'] }).roles).toEqual(['auditor']);
  });

  it('ends with its maker by default, also if an operator or a token makes it', () => {
    for (const by of [maker, { ...maker, roles: ['operator'] }, { ...maker, via: 'jwt' as const, keyId: undefined }]) {
      expect(toKeySpec(by, { client: 'c' }).expiresAt).toBe(END);
      expect(toKeySpec(by, { client: 'c', expiresAt: END - 1 }).expiresAt).toBe(END - 1);
    }
  });

  it('gets no other rights than those of the one who changes it, who must live as long; its tier stays', async () => {
    const store = new MemoryKeyStore();
    const keys = new ApiKeys(store, { pepper: 'a-pepper-for-tests-0123', environment: 'test' }, new FakeClock(1_000));
    const { key } = await keys.issue({ tenantId: 'acme', client: 'bot', tier: 'basic', expiresAt: END }, 'ada');
    const change = (rights: KeyRequest | object, by: Principal = maker) =>
      keys.change(key.id, 'acme', (known) => toChangedKeySpec(by, known, rights));
    expect(await change({ tools: ['calc*'] })).toMatchObject({
      root: { tenantId: 'acme', userId: 'bot', kind: 'operator' },
      ...{ id: key.id, roles: [], tools: ['calc*'], toolset: 'sup@3', tier: 'basic', expiresAt: END },
    });
    await expect(change({ tools: ['*'] })).rejects.toThrow('Your key may not call *.');
    await expect(change({ roles: ['sales'] })).rejects.toThrow('Your key lacks the roles sales.');
    await expect(change({ tier: 'enterprise' })).rejects.toThrow('needs the role operator');
    await expect(change({}, { ...maker, expiresAt: END - 1 })).rejects.toMatchObject({ code: 'PERMISSION_DENIED' });
    expect(await keys.change(key.id, 'globex', () => expect.fail('is not asked'))).toBeUndefined();
    await keys.revoke(key.id);
    expect(await change({})).toBeUndefined();
    const { key: forever } = await keys.issue({ tenantId: 'acme', client: 'bot' }, 'ada');
    const spec = () => toChangedKeySpec(maker, forever, {});
    expect(spec).toThrow('only a key that lives as long can change its rights');
  });

  it('has no other parent than its maker, and no other root', () => {
    const wanted = { client: 'c', parentId: 'other', root: { tenantId: 'acme', userId: 'c', kind: 'operator' } };
    expect(toKeySpec(maker, wanted as KeyRequest)).toMatchObject({
      parentId: 'maker',
      root: { ...maker.root, kind: 'creator' },
    });
  });

  it.each<[string, Partial<Principal>, Principal['root']]>([
    ['of a key', {}, { ...maker.root!, kind: 'creator' }],
    [
      'of a session',
      { via: 'session', keyId: undefined, root: undefined },
      { tenantId: 'acme', userId: 'ada', kind: 'creator' },
    ],
    [
      'of a token',
      { via: 'jwt', keyId: undefined, root: undefined },
      { tenantId: 'acme', userId: 'ada', kind: 'creator' },
    ],
    ['of an operator', { roles: ['operator'] }, { tenantId: 'acme', userId: 'bob', kind: 'operator' }],
  ])('made by the holder %s counts as the person at its root', async (_what, by, root) => {
    const keys = new ApiKeys(
      new MemoryKeyStore(),
      { pepper: 'a-pepper-for-tests-0123', environment: 'test' },
      new FakeClock(1_000),
    );
    const userId = by.roles?.includes('operator') ? 'bob' : undefined;
    const { parentId: _notStored, ...spec } = toKeySpec({ ...maker, ...by }, { client: 'c', userId });
    const { token, key } = await keys.issue(spec, 'ada');
    expect([(await keys.verify(token)).principal.root, (await keys.show(key.id, 'acme'))?.root]).toEqual([root, root]);
    expect(await keys.show(key.id, 'globex')).toBeUndefined();
  });

  it('is made by no credential without a person', () => {
    const ofService = (['nats_subject', 'local'] as const).map((via) => ({ via, keyId: undefined }));
    for (const by of [...ofService, {}])
      expect(() => toKeySpec({ ...maker, root: undefined, ...by }, { client: 'c' })).toThrow('Only a person');
  });

  it('of an administrator without projects has none', () => {
    const { projects: _none, ...plain } = maker;
    expect(toKeySpec(plain, { client: 'c' }).projects).toBeUndefined();
    for (const project of ['shop', '*'])
      expect(() => toKeySpec(plain, { client: 'c', projects: [project] })).toThrow(`Your key may not use ${project}.`);
    const operator = { ...plain, roles: ['operator'] };
    expect(toKeySpec(operator, { client: 'c', projects: ['shop'] }).projects).toEqual(['shop']);
  });
});
