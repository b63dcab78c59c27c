import { describe, expect, it } from 'vitest';
import type { Principal } from '@toolfleet/contracts';
import { FakeClock } from '@toolfleet/testing';
import { issueDelegation, openDelegation, openRequestState, sealRequestState, SignedTokens } from './signed-tokens.js';

const SECRET = 's'.repeat(32);
const principal: Principal = {
  tenantId: 'acme',
  userId: 'ann',
  roles: ['dev'],
  tools: ['web_*'],
  via: 'api_key',
  keyId: 'k1',
  root: { tenantId: 'acme', userId: 'boss', kind: 'operator' },
  tier: 'pro',
};

function setUp() {
  const clock = new FakeClock();
  return { clock, tokens: new SignedTokens(SECRET, clock) };
}

/** Every token that differs from `token` in one character of the given range. */
function* mutations(token: string): Generator<string> {
  for (let i = 0; i < token.length; i++) {
    for (const char of ['A', 'x', '.', '=', '']) {
      if (token[i] !== char) yield token.slice(0, i) + char + token.slice(i + 1);
    }
  }
}

const delegated = (tokens: SignedTokens, clock: FakeClock, forMs = 1_000): string =>
  issueDelegation(tokens, {
    principal,
    callId: 'c1',
    project: { id: 'shop', create: true },
    spends: { requestId: 'r1' },
    scopes: ['*'],
    expiresAt: clock.now() + forMs,
  });

describe('a changed secret', () => {
  const NEXT = 't'.repeat(32);
  const MINUTE = 60_000;

  it('refuses no token while only some gateways know it', () => {
    const { clock, tokens: early } = setUp();
    const late = new SignedTokens(SECRET, clock);
    early.rotate(NEXT);
    expect(openDelegation(late, delegated(early, clock))?.tenantId).toBe('acme');
    clock.advance(MINUTE);
    late.rotate(NEXT);
    clock.advance(MINUTE);
    // The early one signs with the new secret now, the late one with the old one still.
    expect(openDelegation(late, delegated(early, clock))?.tenantId).toBe('acme');
    expect(openDelegation(early, delegated(late, clock))?.tenantId).toBe('acme');
    expect(openDelegation(new SignedTokens(NEXT, clock), delegated(early, clock))?.tenantId).toBe('acme');
  });

  it('accepts tokens of the old secret until they expire', () => {
    const { clock, tokens } = setUp();
    const old = new SignedTokens(SECRET, clock);
    const long = delegated(old, clock, 15 * MINUTE);
    tokens.rotate(NEXT);
    clock.advance(14 * MINUTE);
    expect(openDelegation(tokens, long)?.tenantId).toBe('acme');
    clock.advance(4 * MINUTE);
    expect(openDelegation(tokens, delegated(old, clock))).toBeNull();
    expect(openDelegation(tokens, delegated(tokens, clock))?.tenantId).toBe('acme');
  });

  it('that is too short changes nothing', () => {
    const { clock, tokens } = setUp();
    expect(() => tokens.rotate('short')).toThrow(RangeError);
    expect(openDelegation(new SignedTokens(SECRET, clock), delegated(tokens, clock))).not.toBeNull();
  });
});

describe('delegation token', () => {
  it('yields the principal, narrowed to the scopes, on behalf of the call', () => {
    const { clock, tokens } = setUp();
    const token = issueDelegation(tokens, {
      principal,
      callId: 'c1',
      spends: { requestId: 'r1', taskId: 't1' },
      project: { id: 'shop', create: false },
      scopes: ['web_search', 'file_write'],
      expiresAt: clock.now() + 1_000,
    });
    expect(openDelegation(tokens, token)).toEqual({
      tenantId: 'acme',
      userId: 'ann',
      roles: ['dev'],
      tools: ['web_search'],
      via: 'delegation',
      authenticated: true,
      parentCallId: 'c1',
      parentProject: { id: 'shop', create: false },
      parentSpends: { requestId: 'r1', taskId: 't1' },
      expiresAt: clock.now() + 1_000,
      keyId: 'k1',
      root: principal.root,
      tier: 'pro',
    });
  });

  it.each<[string, Partial<Principal>, boolean]>([
    ['a key', {}, true],
    ['the development key', { via: 'local', authenticated: true }, true],
    ['a caller without a credential', { via: 'local' }, false],
    ['a subject of NATS', { via: 'nats_subject' }, false],
    ['a delegated caller', { via: 'delegation', authenticated: true }, true],
    ['an anonymous delegated caller', { via: 'delegation', authenticated: false }, false],
  ])('has the answer of %s to whether a credential was presented', (_, parent, authenticated) => {
    const { clock, tokens } = setUp();
    const grant = { callId: 'c1', spends: { requestId: 'r1' }, scopes: ['*'], expiresAt: clock.now() + 1_000 };
    const token = issueDelegation(tokens, { ...grant, principal: { ...principal, ...parent } });
    expect(openDelegation(tokens, token)).toMatchObject({ authenticated });
  });

  it('ends with the deadline', async () => {
    const { clock, tokens } = setUp();
    const token = delegated(tokens, clock);
    clock.advance(3_001);
    expect(openDelegation(tokens, token)).toBeNull();
  });

  it('is refused when one character differs, anywhere', () => {
    const { clock, tokens } = setUp();
    const token = delegated(tokens, clock);
    for (const forged of mutations(token)) expect(openDelegation(tokens, forged), forged).toBeNull();
  });

  it('is refused when another fleet signed it', () => {
    const { clock, tokens } = setUp();
    const other = new SignedTokens('t'.repeat(32), clock);
    expect(openDelegation(tokens, delegated(other, clock))).toBeNull();
  });

  it('is invalid as a request state, and vice versa', () => {
    const { clock, tokens } = setUp();
    const binding = { principal, tool: 'bash', arguments: {} };
    const state = sealRequestState(tokens, binding, {}, clock.now() + 1_000);
    expect(openDelegation(tokens, `tfd_${state}`)).toBeNull();
    const token = delegated(tokens, clock);
    expect(openRequestState(tokens, binding, token.slice(4))).toBeNull();
  });

  it('needs a secret of sufficient length', () => {
    expect(() => new SignedTokens('short', new FakeClock())).toThrow(RangeError);
  });
});

describe('request state', () => {
  const binding = { principal, tool: 'file_write', arguments: { path: 'a', options: { x: 1, y: [1, 2] } } };

  it('opens for the same caller, tool and arguments, in any order of keys', () => {
    const { clock, tokens } = setUp();
    const token = sealRequestState(tokens, binding, { approved: true }, clock.now() + 1_000);
    const reordered = { ...binding, arguments: { options: { y: [1, 2], x: 1 }, path: 'a' } };
    expect(openRequestState(tokens, reordered, token)).toEqual({ approved: true });
  });

  it.each([
    ['another user', { ...binding, principal: { ...principal, userId: 'bob' } }],
    ['another tenant', { ...binding, principal: { ...principal, tenantId: 'evil' } }],
    ['another tool', { ...binding, tool: 'file_delete' }],
    ['other arguments', { ...binding, arguments: { path: 'b', options: { x: 1, y: [1, 2] } } }],
    ['a toolset', { ...binding, principal: { ...principal, toolset: { name: 'support', version: 1 } } }],
    ['an array for an object', { ...binding, arguments: { path: 'a', options: ['o', ['x', 1], ['y', ['a', 1, 2]]] } }],
  ])('is refused for %s', (_, other) => {
    const { clock, tokens } = setUp();
    const token = sealRequestState(tokens, binding, { approved: true }, clock.now() + 1_000);
    expect(openRequestState(tokens, other, token)).toBeNull();
  });

  it('is refused in another toolset, and in another version of its own', () => {
    const { clock, tokens } = setUp();
    const inToolset = (name: string, version: number) => ({
      ...binding,
      principal: { ...principal, toolset: { name, version } },
    });
    const token = sealRequestState(tokens, inToolset('support', 1), { approved: true }, clock.now() + 1_000);
    expect(openRequestState(tokens, inToolset('support', 1), token)).toEqual({ approved: true });
    for (const other of [inToolset('support', 2), inToolset('sales', 1), binding])
      expect(openRequestState(tokens, other, token)).toBeNull();
  });

  it('is refused when it is altered or old', () => {
    const { clock, tokens } = setUp();
    const token = sealRequestState(tokens, binding, { approved: false }, clock.now() + 1_000);
    for (const forged of mutations(token)) expect(openRequestState(tokens, binding, forged)).toBeNull();
    clock.advance(10_000);
    expect(openRequestState(tokens, binding, token)).toBeNull();
  });
});
