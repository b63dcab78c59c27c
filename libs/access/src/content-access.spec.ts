import { ToolError, type Person, type Principal } from '@toolfleet/contracts';
import type { StoredCall } from '@toolfleet/contracts/records';
import { aPrincipal } from '@toolfleet/testing/engine-fixture';
import { describe, expect, it } from 'vitest';
import { LOCAL_OPERATOR } from './authenticate.js';
import { bodyAccess, contentAccess, requireCancel, type ContentAccess } from './content-access.js';

/** Of the key of ann. */
const CALL = { tenantId: 'acme', maker: 'key:k1', userId: 'ann' };
const key = (keyId: string, more: Partial<Principal> = {}) => aPrincipal({ userId: 'ann', keyId, ...more });
const root = (userId: string, kind: Person['kind'] = 'creator') => ({ tenantId: 'acme', userId, kind });
const person = (userId: string, more: Partial<Principal> = {}) =>
  aPrincipal({ via: 'session', userId, keyId: undefined, ...more });

const CALLERS: [string, Principal, ContentAccess, canCancel: boolean][] = [
  ['the key that made it', key('k1'), 'own', true],
  ['a key with the name of its user, made by an unknown person', key('k2'), 'denied', false],
  ['another key of its user, made by an operator', key('k2', { root: root('ann', 'operator') }), 'own', true],
  ['another key of its user, made by the user', key('k2', { root: root('ann', 'creator') }), 'own', true],
  ['a key with the name of its user, made by an administrator', key('k2', { root: root('boss') }), 'denied', false],
  ['a tool that such a key called', key('k2', { root: root('boss'), via: 'delegation' }), 'denied', false],
  ['its user, signed in', person('ann'), 'own', true],
  ['its user, with a JWT', person('ann', { via: 'jwt' }), 'own', true],
  ['its user, of an OAuth client', person('ann', { via: 'oauth' }), 'own', true],
  ['another user', person('bob'), 'denied', false],
  ['a tool that its key called', key('k1', { via: 'delegation' }), 'own', true],
  ['a tool that its user called', person('ann', { via: 'delegation' }), 'own', true],
  ['a tool that another key of its user called', key('k2', { via: 'delegation' }), 'denied', false],
  ['an administrator', key('k2', { roles: ['admin'] }), 'denied', true],
  ['an auditor', key('k2', { userId: 'eve', roles: ['auditor'] }), 'recorded', true],
  ['a tool that an auditor called', key('k2', { roles: ['auditor'], via: 'delegation' }), 'denied', false],
  ['an auditor whose own it is', person('ann', { roles: ['auditor'] }), 'own', true],
  ['an auditor of another tenant', key('k1', { tenantId: 'globex', roles: ['auditor'] }), 'denied', false],
  ['the same user name in another tenant', person('ann', { tenantId: 'globex' }), 'denied', false],
  ['NATS users of the tenant', person('nats:acme', { via: 'nats_subject' }), 'denied', false],
];

describe('the content of a call', () => {
  it.each(CALLERS)('for %s', (_, caller, access, canCancel) => {
    expect(contentAccess(caller, CALL)).toBe(access);
    const cancel = () => requireCancel(caller, CALL);
    if (canCancel) expect(cancel).not.toThrow();
    else expect(cancel).toThrow(ToolError);
  });

  it('is recorded for the developer of a local fleet where it is of others', () => {
    expect(contentAccess(LOCAL_OPERATOR, { ...CALL, tenantId: 'local' })).toBe('recorded');
    expect(contentAccess(LOCAL_OPERATOR, { tenantId: 'local', maker: 'user:dev', userId: 'dev' })).toBe('own');
  });

  it('of a call without a known maker is for its user in person, or no caller', () => {
    expect(contentAccess(key('k1'), { tenantId: 'acme', userId: 'ann' })).toBe('denied');
    expect(contentAccess(person('ann'), { tenantId: 'acme', userId: 'ann' })).toBe('own');
    expect(contentAccess(person('ann'), { tenantId: 'acme' })).toBe('denied');
  });

  it('of a finished call, kept with its record, is as well, and for no token of a call', () => {
    const record = { tenant_id: 'acme', user_id: 'ann', key_id: 'k1', body_bytes: 7 } as StoredCall;
    for (const [name, caller, access] of CALLERS)
      expect(bodyAccess(caller, record), name).toBe(caller.via === 'delegation' ? 'denied' : access);
    expect(bodyAccess(key('k1'), { ...record, body_bytes: undefined })).toBe('not_kept');
    expect(bodyAccess(person('ann'), { ...record, key_id: undefined })).toBe('own');
    expect(bodyAccess(key('k2'), { ...record, key_id: undefined })).toBe('denied');
  });
});
