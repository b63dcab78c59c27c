import type { Person, Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { aPrincipal } from '@toolfleet/testing/engine-fixture';
import { describe, expect, it } from 'vitest';
import { LOCAL_OPERATOR } from './authenticate.js';
import { CallSight, toSeenCall, type SeenCall, type Sight } from './call-sight.js';

const SINCE = 1_000;
const http = { kind: 'openapi' } as RegisteredTool['binding'];
const tool = (name: string, more: Partial<RegisteredTool> = {}) => ({ name, binding: http, ...more }) as RegisteredTool;
const sharing = (name: string, more: Partial<RegisteredTool> = {}) =>
  tool(name, { results: 'tenant', shared_since: SINCE, ...more });
const TOOLS = [
  tool('crm_find'),
  sharing('wiki_find', { aliases: ['wiki.find'] }),
  sharing('wiki_pay', { required_roles: ['finance'] }),
  sharing('wiki_mine', { requires_auth: true }),
  sharing('mail_find', { binding: { ...http, auth: { user: { mode: 'connect' } } } as RegisteredTool['binding'] }),
  sharing('run_program', { binding: { kind: 'program' } }),
  sharing('wiki_late', { shared_since: undefined as unknown as number }),
];
const sight = new CallSight({ list: async () => ({ tools: TOOLS, version: 1, stale: false }) });
const away = new CallSight({ list: () => Promise.reject(new Error('the registry is unavailable')) });

/** Of the key of ann. */
const CALL: SeenCall = { tenantId: 'acme', maker: 'key:k1', userId: 'ann', tool: 'crm_find', acceptedAt: SINCE };
const key = (keyId: string, more: Partial<Principal> = {}) => aPrincipal({ userId: 'ann', keyId, ...more });
const root = (userId: string, kind: Person['kind'] = 'creator') => ({ tenantId: 'acme', userId, kind });
const person = (userId: string, more: Partial<Principal> = {}) =>
  aPrincipal({ via: 'session', userId, keyId: undefined, ...more });

const CALLERS: [string, Principal, Sight][] = [
  ['the key that made it', key('k1'), 'own'],
  ['the key that made it, narrowed since', key('k1', { tools: ['wiki_*'] }), 'own'],
  ['a key with the name of its user, made by an unknown person', key('k2'), 'none'],
  ['another key of its user, made by an operator', key('k2', { root: root('ann', 'operator') }), 'own'],
  ['another key of its user, made by the user', key('k2', { root: root('ann', 'creator') }), 'own'],
  ['a key with the name of its user, made by an administrator', key('k2', { root: root('boss') }), 'none'],
  ['a tool that such a key called', key('k2', { root: root('boss'), via: 'delegation' }), 'none'],
  ['its user, signed in', person('ann'), 'own'],
  ['its user, with a JWT', person('ann', { via: 'jwt' }), 'own'],
  ['its user, of an OAuth client', person('ann', { via: 'oauth' }), 'own'],
  ['its user, through a toolset', person('ann', { toolset: { name: 'support', version: 1 } as never }), 'own'],
  ['another user that may use the tool', person('bob'), 'none'],
  ['a tool that its key called', key('k1', { via: 'delegation' }), 'own'],
  ['a tool that its user called', person('ann', { via: 'delegation' }), 'own'],
  ['a tool of its key that may not call it', key('k1', { via: 'delegation', tools: ['wiki_*'] }), 'none'],
  ['a tool that another key of its user called', key('k2', { via: 'delegation' }), 'none'],
  ['an administrator', key('k2', { roles: ['admin'] }), 'state'],
  ['an approver', key('k2', { roles: ['approver'] }), 'none'],
  ['an auditor', key('k2', { userId: 'eve', roles: ['auditor'] }), 'recorded'],
  ['a tool that an auditor called', key('k2', { roles: ['auditor'], via: 'delegation' }), 'none'],
  ['a role with read_bodies alone', person('eve', { rights: ['read_bodies'] }), 'none'],
  ['an auditor whose own it is', person('ann', { roles: ['auditor'] }), 'own'],
  ['an administrator of another tenant', key('k1', { tenantId: 'globex', roles: ['admin'] }), 'none'],
  ['an auditor of another tenant', key('k1', { tenantId: 'globex', roles: ['auditor'] }), 'none'],
  ['an operator', key('k9', { tenantId: 'operator', userId: 'olga', roles: ['operator'] }), 'state'],
  ['the same user name in another tenant', person('ann', { tenantId: 'globex' }), 'none'],
  ['NATS users of the tenant', person('nats:acme', { via: 'nats_subject' }), 'none'],
];

describe('the sight of a call', () => {
  it.each(CALLERS)('of %s', async (_, caller, wanted) => {
    expect(await sight.of(caller, CALL)).toBe(wanted);
    expect((await sight.rule(caller)).of(CALL)).toBe(wanted);
    expect(await away.of(caller, CALL), 'while the registry is unavailable').toBe(wanted);
  });

  it('of the developer of a local fleet', async () => {
    expect(await sight.of(LOCAL_OPERATOR, { ...CALL, tenantId: 'local' })).toBe('recorded');
    expect(await sight.of(LOCAL_OPERATOR, { ...CALL, tenantId: 'local', maker: 'user:dev', userId: 'dev' })).toBe(
      'own',
    );
  });

  it('without a known maker is for its user in person', async () => {
    const { maker: _maker, ...call } = CALL;
    expect(await sight.of(key('k1'), call)).toBe('none');
    expect(await sight.of(person('ann'), call)).toBe('own');
    expect(await sight.of(person('ann'), { ...call, userId: undefined })).toBe('none');
  });

  it('of a finished call is the same', async () => {
    const record = {
      tenant_id: 'acme',
      user_id: 'ann',
      key_id: 'k1',
      tool: 'crm_find',
      ended_at: 1_030,
      duration_ms: 30,
    };
    expect(toSeenCall(record as never)).toEqual(CALL);
    expect(toSeenCall({ ...record, key_id: undefined } as never)).toMatchObject({ maker: 'user:ann' });
  });
});

describe('calls of a source that shares results', () => {
  const of = (caller: Principal, name: string, more: Partial<SeenCall> = {}) =>
    sight.of(caller, { ...CALL, tool: name, ...more });
  const bob = person('bob');

  it('are seen by callers of the tenant that may use the tool', async () => {
    expect(await of(bob, 'wiki_find')).toBe('shared');
    expect(await of(bob, 'wiki.find')).toBe('shared');
    expect(await of(person('ann'), 'wiki_find')).toBe('own');
    expect(await of(person('bob', { tools: ['crm_*'] }), 'wiki_find')).toBe('none');
    expect(await of(person('bob', { tenantId: 'globex' }), 'wiki_find')).toBe('none');
    expect(await of(person('bob', { toolset: { name: 'support', version: 1 } as never }), 'wiki_find')).toBe('none');
    expect(await of(bob, 'wiki_pay')).toBe('none');
    expect(await of(person('bob', { roles: ['finance'] }), 'wiki_pay')).toBe('shared');
    expect(await of(bob, 'wiki_mine')).toBe('shared');
    expect(await of(person('nats:acme', { via: 'nats_subject' }), 'wiki_mine')).toBe('none');
    expect(await of(person('boss', { roles: ['admin'], tools: ['crm_*'] }), 'wiki_find')).toBe('state');
  });

  it('are not those that act with the credential of a user, nor those from before the choice', async () => {
    expect(await of(bob, 'mail_find')).toBe('none');
    expect(await of(bob, 'run_program')).toBe('none');
    expect(await of(bob, 'wiki_late')).toBe('none');
    expect(await of(bob, 'wiki_find', { acceptedAt: SINCE - 1 })).toBe('none');
    expect(await away.of(bob, { ...CALL, tool: 'wiki_find' })).toBe('none');
  });

  it('are what a list looks for besides own calls', async () => {
    const isOwnOnly = async (caller: Principal) => (await sight.rule(caller)).isOwnOnly;
    expect(await isOwnOnly(bob)).toBe(false);
    expect(await isOwnOnly(person('bob', { tools: ['crm_*', 'mail_*', 'run_*'] }))).toBe(true);
    expect(await isOwnOnly(person('boss', { tools: ['crm_*'], roles: ['admin'] }))).toBe(false);
  });
});
