/** Tokens of sign-ins exchanged at real authorization servers: RFC 8693, on-behalf-of, and assertions (id-jag). */
import type { GrantFind } from '@toolfleet/contracts/identity';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import { issueGrantToken, SignedTokens } from '@toolfleet/access/signed-tokens';
import { sqliteDialect } from '@toolfleet/database';
import { SystemClock } from '@toolfleet/resilience';
import { KeyRing } from '@toolfleet/service';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startAuthorizationServer, type AuthorizationServer } from '../spec/authorization-server.mjs';
import { AuthorizationServers } from './authorization-servers.js';
import { ExchangedGrants } from './exchanged-grants.js';
import { GrantRefresh } from './grant-refresh.js';
import { UserGrantStore } from './user-grant-store.js';
import { Grants } from './grants.js';
import { openIdentityDb } from '../spec/identity-db.fixture.js';
import type { IdentityDb } from './identity-tables.js';
import { OAuthClient } from './oauth-client.js';
import { SessionStore } from './session-store.js';
import { SignInTokens } from './sign-in-tokens.js';

const SECRET = 'secret-of-the-fleet';
const REDIRECT = 'http://127.0.0.1:33418/connected';
const SOURCE = 'mcp/crm';

/** A clock that can be put forward. */
class ShiftedClock extends SystemClock {
  shiftMs = 0;
  override now(): number {
    return super.now() + this.shiftMs;
  }
}

const clock = new ShiftedClock();
const tokens = new SignedTokens('a-token-secret-for-tests-0123456789abcdef', clock);
/** Signs users in, exchanges and asserts. */
let company: AuthorizationServer;
/** The authorization server of the source; it trusts the company. */
let vendor: AuthorizationServer;
let db: IdentityDb;
let sessions: SessionStore;
let signIns: SignInTokens;
let client: OAuthClient;
let grants: Grants;
beforeAll(async () => {
  [company, vendor] = await Promise.all([
    startAuthorizationServer([REDIRECT], { accessTokenSeconds: 60 }),
    startAuthorizationServer([REDIRECT], { accessTokenSeconds: 60 }),
  ]);
  vendor.trusts = company.issuer;
  db = await openIdentityDb(sqliteDialect(':memory:'));
});
afterAll(async () => {
  await db?.destroy();
  await Promise.all([company?.stop(), vendor?.stop()]);
});
beforeEach(() => {
  const keys = new KeyRing('k1:an-identity-key-for-tests-0123456789abcdef');
  const store = new UserGrantStore(db, keys);
  const servers = new AuthorizationServers({
    fetch: (...given) => fetch(...given),
    open: (value) => value,
    signIn: { issuer: company.issuer, clientId: 'fleet', secret: () => SECRET, fetch },
    clock,
  });
  client = new OAuthClient(servers);
  sessions = new SessionStore(db);
  signIns = new SignInTokens(store, clock, company.issuer, true);
  const exchanged = new ExchangedGrants({ store, sessions, signIns, client, clock });
  const refresh: GrantRefresh = new GrantRefresh({
    store,
    renew: (grant) =>
      grant.mode === 'connect'
        ? client.refresh(grant.source, grant.auth, grant.secrets.refresh_token!)
        : exchanged.renew(grant, refresh),
    clock,
  });
  const unused = undefined as never;
  grants = new Grants({
    store,
    attempts: unused,
    client,
    refresh,
    exchanged,
    tokens,
    clock,
    upstream: { begin: () => undefined },
    announce: () => undefined,
  });
  company.exchanges.length = 0;
  vendor.exchanges.length = 0;
  company.refusesExchanges = false;
  clock.shiftMs = 0;
});

/** Tokens of the company for a user. */
async function companyTokens(user: string) {
  const auth: UserAuth = { mode: 'connect', issuer: company.issuer, scopes: ['openid', 'offline_access'] };
  const begun = await client.begin(SOURCE, auth, REDIRECT);
  const redirect = new URLSearchParams(await company.signIn(begun.url, user));
  return client.finish(SOURCE, auth, redirect, { ...begun, redirectUri: REDIRECT });
}

/** Signs a user in. @returns the id of the session */
async function signIn(user: string): Promise<string> {
  const session_id = crypto.randomUUID();
  await signIns.keep(session_id, { tenantId: 'acme', userId: user }, await companyTokens(user));
  const session = { session_id, digest: crypto.randomUUID(), tenant_id: 'acme', user_id: user, roles: [], groups: [] };
  return sessions.create({ ...session, expires_at: clock.now() + 3_600_000 }, clock.now());
}

const ask = (user: string, auth: UserAuth, proof: Partial<GrantFind>) =>
  grants.find({ tenant_id: 'acme', user_id: user, source: SOURCE, auth, ...proof });
const tokenOf = (user: string, grantId: string, refused?: number) => {
  const call = { tenantId: 'acme', userId: user, source: SOURCE, grantId };
  return grants.token({ token: issueGrantToken(tokens, call, clock.now() + 60_000), ...(refused && { refused }) });
};

const EXCHANGE: UserAuth = { mode: 'exchange', audience: 'crm' };

describe.each([
  ['token exchange', () => EXCHANGE, () => company, ['access_token USER crm']],
  ['on-behalf-of', (): UserAuth => ({ mode: 'exchange', grant: 'on_behalf_of' }), () => company, ['on_behalf_of USER']],
  [
    'an assertion',
    (): UserAuth => ({ mode: 'id_jag', issuer: vendor.issuer, client_id: 'fleet', client_secret: SECRET }),
    () => vendor,
    ['id-jag USER VENDOR', 'asserted USER'],
  ],
] as const)('%s', (name, authOf, issuerOf, requests) => {
  const user = `ann ${name}`;

  it('turns the sign-in of a user into a token of the source, once for each expiry and each refusal', async () => {
    const auth = authOf();
    const session_id = await signIn(user);
    const found = await Promise.all([1, 2, 3].map(() => ask(user, auth, { session_id })));
    expect(new Set(found.map(({ grant_id: id }) => id)).size).toBe(1);
    const id = found[0]!.grant_id!;
    const got = await Promise.all(Array.from({ length: 10 }, () => tokenOf(user, id)));
    expect(new Set(got.map(({ value }) => value)).size).toBe(1);
    expect(await issuerOf().accountOf(got[0]!.value)).toBe(user);
    const seen = requests.map((text) => text.replace('USER', user).replace('VENDOR', vendor.issuer));
    expect([...company.exchanges, ...vendor.exchanges]).toEqual(seen);
    // The upstream refused it: calls that wait for another one share it.
    const { generation } = got[0]!;
    const again = await Promise.all([1, 2, 3].map(() => tokenOf(user, id, generation)));
    expect(again.every(({ value, generation: next }) => value === again[0]!.value && next === generation + 1)).toBe(
      true,
    );
    expect(company.exchanges.length + vendor.exchanges.length).toBe(seen.length * 2);
  });
});

describe('a sign-in', () => {
  it('is proved by a session of the same user, or a token that was presented; API keys prove none', async () => {
    const session_id = await signIn('bob');
    const refused = (user: string, proof: Partial<GrantFind>) => ask(user, EXCHANGE, proof);
    expect(await refused('bob', {})).toEqual({ reason: expect.stringContaining('this credential proves none') });
    expect(await refused('eve', { session_id })).toEqual({ reason: expect.stringContaining('has ended') });
    expect(await refused('bob', { is_continued: true })).toEqual({ reason: expect.stringContaining('proves none') });
    const { access_token: presented } = await companyTokens('cem');
    const proof = { subject_token: presented, subject_until: clock.now() + 60_000 };
    const { grant_id: id } = await ask('cem', EXCHANGE, proof);
    expect(await company.accountOf((await tokenOf('cem', id!)).value)).toBe('cem');
    // A call that waited in a queue.
    expect(await ask('cem', EXCHANGE, { is_continued: true })).toEqual({ grant_id: id });
    // Nothing of the user is left to exchange when the presented token has ended.
    clock.shiftMs = 120_000;
    await expect(tokenOf('cem', id!)).rejects.toMatchObject({
      code: 'AUTHORIZATION_REQUIRED',
      message: expect.stringContaining('cannot act as you: your sign-in has ended'),
    });
  });

  it('is refreshed before it is exchanged, while the user is signed in', async () => {
    const session_id = await signIn('dee');
    const { grant_id: id } = await ask('dee', EXCHANGE, { session_id });
    const before = company.refreshes.get('dee') ?? 0;
    clock.shiftMs = 120_000;
    const got = await Promise.all([1, 2, 3].map(() => tokenOf('dee', id!)));
    expect(new Set(got.map(({ value }) => value)).size).toBe(1);
    expect(company.refreshes.get('dee')).toBe(before + 1);
    await sessions.revoke({ tenant_id: 'acme', user_id: 'dee' }, clock.now());
    await expect(tokenOf('dee', id!, got[0]!.generation)).rejects.toMatchObject({ code: 'AUTHORIZATION_REQUIRED' });
    expect(await ask('dee', EXCHANGE, { session_id })).toEqual({ reason: expect.stringContaining('has ended') });
    // The next sign-in is a new grant.
    const next = await ask('dee', EXCHANGE, { session_id: await signIn('dee') });
    expect(next.grant_id).toBeDefined();
    expect(await company.accountOf((await tokenOf('dee', next.grant_id!)).value)).toBe('dee');
    await signIns.forgetEnded(clock.now() + 7_200_000);
    expect(await signIns.find({ tenant_id: 'acme', user_id: 'dee' })).toBeUndefined();
  });

  it('that the provider does not exchange is refused with its reason, and tried again later', async () => {
    const session_id = await signIn('fay');
    const { grant_id: id } = await ask('fay', EXCHANGE, { session_id });
    company.refusesExchanges = true;
    await expect(tokenOf('fay', id!)).rejects.toMatchObject({
      code: 'AUTHORIZATION_REQUIRED',
      message: expect.stringContaining('invalid_grant'),
    });
    const reason = 'the authorization server refuses your sign-in (invalid_grant)';
    expect(await ask('fay', EXCHANGE, { is_continued: true })).toEqual({ reason });
    expect(await ask('fay', EXCHANGE, { session_id })).toEqual({ reason });
    company.refusesExchanges = false;
    clock.shiftMs = 31_000;
    const again = await ask('fay', EXCHANGE, { session_id });
    expect(await company.accountOf((await tokenOf('fay', again.grant_id!)).value)).toBe('fay');
  });

  it('is not exchanged with the client of the fleet for sources of a tenant', async () => {
    const session_id = await signIn('hal');
    const source = `${SOURCE}@acme`;
    const owner = { tenant_id: 'acme', user_id: 'hal', source };
    const { grant_id: grantId } = await grants.find({ ...owner, auth: EXCHANGE, session_id });
    const call = { tenantId: 'acme', userId: 'hal', source, grantId: grantId! };
    const token = issueGrantToken(tokens, call, clock.now() + 60_000);
    await expect(grants.token({ token })).rejects.toMatchObject({
      code: 'AUTH_NOT_CONFIGURED',
      message: expect.stringContaining('belongs to a tenant'),
    });
    expect(company.exchanges).toEqual([]);
  });

  it('stays when the operator has to correct the client', async () => {
    const session_id = await signIn('gil');
    const auth: UserAuth = { mode: 'exchange', issuer: vendor.issuer, client_id: 'fleet', client_secret: 'wrong' };
    const { grant_id: id } = await ask('gil', auth, { session_id });
    await expect(tokenOf('gil', id!)).rejects.toMatchObject({ code: 'AUTH_NOT_CONFIGURED' });
    expect(await ask('gil', auth, { session_id })).toEqual({ grant_id: id });
  });
});
