import { toMaker, type Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { aPrincipal } from '@toolfleet/testing/engine-fixture';
import { describe, expect, it } from 'vitest';
import { CallAccess, type OwnedCall } from './call-access.js';

const tool = (name: string, more: Partial<RegisteredTool> = {}) => ({ name, ...more }) as RegisteredTool;
const TOOLS = [
  tool('calculator', { aliases: ['math.eval'] }),
  tool('payroll', { required_roles: ['finance'] }),
  tool('mailbox', { requires_auth: true }),
  tool('web_search'),
];
const access = new CallAccess({ list: async () => ({ tools: TOOLS, version: 1, stale: false }) });
const away = new CallAccess({ list: () => Promise.reject(new Error('the registry is unavailable')) });

const caller = (more: Partial<Principal> = {}): Principal => aPrincipal({ keyId: 'key1', ...more });
const call = (name: string, more: Partial<OwnedCall> = {}): OwnedCall => ({
  tenantId: 'acme',
  tool: name,
  maker: 'key:key9',
  ...more,
});

describe('access to a call', () => {
  it.each<[string, Principal, OwnedCall, boolean]>([
    ['a key of every tool', caller(), call('calculator'), true],
    ['a narrowed key to calls of its tools', caller({ tools: ['calc*'] }), call('calculator'), true],
    ['a narrowed key to calls of other tools', caller({ tools: ['calc*'] }), call('web_search'), false],
    ['a key that allows an alias', caller({ tools: ['math.eval'] }), call('calculator'), true],
    ['a call by its alias', caller({ tools: ['calculator'] }), call('math.eval'), true],
    [
      'a call it made itself, narrowed or not',
      caller({ tools: ['calc*'] }),
      call('web_search', { maker: 'key:key1' }),
      true,
    ],
    ['another key of the same user', caller({ tools: ['calc*'], keyId: 'key2' }), call('web_search'), false],
    ['a call whose maker is not known', caller({ tools: ['calc*'] }), call('web_search', { maker: undefined }), false],
    ['a tool whose role the key lacks', caller(), call('payroll'), false],
    ['a tool whose role the key has', caller({ roles: ['finance'] }), call('payroll'), true],
    ['a tool that requires a credential, with one', caller(), call('mailbox'), true],
    ['a tool that requires a credential, without one', caller({ via: 'nats_subject' }), call('mailbox'), false],
    ['a tool that is gone, by its name', caller({ tools: ['old_*'] }), call('old_tool'), true],
    ['an administrator of the tenant', caller({ tools: ['calc*'], roles: ['admin'] }), call('payroll'), true],
    ['an administrator of another tenant', caller({ tenantId: 'globex', roles: ['admin'] }), call('payroll'), false],
    ['an operator', caller({ tenantId: 'operator', roles: ['operator'] }), call('payroll'), true],
    ['another tenant', caller({ tenantId: 'globex' }), call('calculator'), false],
    ['a key id of another tenant', caller({ tenantId: 'globex', keyId: 'key9' }), call('calculator'), false],
    [
      'a delegated call of the key that made it',
      caller({ via: 'delegation', tools: ['calc*'] }),
      call('web_search', { maker: 'key:key1' }),
      false,
    ],
    [
      'a delegated call of an administrator',
      caller({ via: 'delegation', tools: ['calc*'], roles: ['admin'] }),
      call('payroll'),
      false,
    ],
  ])('of %s', async (_, who, what, wanted) => {
    expect(await access.may(who, what)).toBe(wanted);
    expect((await access.ruleFor(who)).call(what)).toBe(wanted);
  });

  it('distinguishes users without keys', async () => {
    const ann = { ...caller({ via: 'jwt', tools: ['calc*'] }), keyId: undefined } as unknown as Principal;
    const made = call('web_search', { maker: toMaker(ann) });
    expect(await access.may(ann, made)).toBe(true);
    expect(await access.may({ ...ann, userId: 'bob' }, made)).toBe(false);
    expect(await access.may(caller({ tools: ['calc*'] }), made)).toBe(false);
  });

  it('is decided by names alone while the registry is unavailable', async () => {
    expect(await away.may(caller({ tools: ['calc*'] }), call('calculator'))).toBe(true);
    expect(await away.may(caller({ tools: ['calc*'] }), call('web_search'))).toBe(false);
    expect(await away.may(caller({ tools: ['calc*'] }), call('web_search', { maker: 'key:key1' }))).toBe(true);
  });
});
