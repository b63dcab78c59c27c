/** Refreshes of two replicas on one store, at an authorization server that rotates refresh tokens and detects reuse. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import { sqliteDialect } from '@toolfleet/database';
import { SystemClock } from '@toolfleet/resilience';
import { KeyRing } from '@toolfleet/service';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startAuthorizationServer, type AuthorizationServer } from '../spec/authorization-server.mjs';
import { GrantRefresh } from './grant-refresh.js';
import { UserGrantStore, type OpenGrant } from './user-grant-store.js';
import { openIdentityDb } from '../spec/identity-db.fixture.js';
import type { IdentityDb } from './identity-tables.js';
import { AuthorizationServers } from './authorization-servers.js';
import { UpstreamRevocation } from './upstream-revocation.js';
import { OAuthClient } from './oauth-client.js';

const REDIRECT = 'http://127.0.0.1:33418/connected';
const SOURCE = 'mcp/crm';
const KEYS = new KeyRing('k1:an-identity-key-for-tests-0123456789abcdef');

/** A clock that can be put forward. */
class ShiftedClock extends SystemClock {
  shiftMs = 0;
  override now(): number {
    return super.now() + this.shiftMs;
  }
}

let login: AuthorizationServer;
let folder: string;
let databases: IdentityDb[];
let auth: UserAuth;
const clock = new ShiftedClock();
const client = new OAuthClient(
  new AuthorizationServers({
    fetch: (...given) => fetch(...given),
    open: (value) => value,
    signIn: undefined,
    clock: new SystemClock(),
  }),
);
beforeAll(async () => {
  login = await startAuthorizationServer([REDIRECT]);
  folder = mkdtempSync(join(tmpdir(), 'grants-'));
  databases = [];
  for (let replica = 0; replica < 2; replica++)
    databases.push(await openIdentityDb(sqliteDialect(join(folder, 'identity.db'))));
  auth = {
    mode: 'connect',
    issuer: login.issuer,
    client_id: 'fleet',
    client_secret: 'secret-of-the-fleet',
    scopes: ['openid', 'offline_access'],
  };
});
afterAll(async () => {
  for (const database of databases ?? []) await database.destroy();
  await login?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const stores = () => databases.map((db) => new UserGrantStore(db, KEYS)) as [UserGrantStore, UserGrantStore];
const replica = (store: UserGrantStore, refresh = client.refresh.bind(client)) =>
  new GrantRefresh({
    store,
    renew: ({ source, auth: granted, secrets }) => refresh(source, granted, secrets.refresh_token!),
    clock,
  });

/** A user who has connected. */
async function connected(user: string, store: UserGrantStore): Promise<OpenGrant> {
  const { url, state, verifier } = await client.begin(SOURCE, auth, REDIRECT);
  const redirect = new URLSearchParams(await login.signIn(url, user));
  const { access_token, refresh_token, scopes } = await client.finish(SOURCE, auth, redirect, {
    state,
    verifier,
    redirectUri: REDIRECT,
  });
  const owner = { tenant_id: 'acme', user_id: user, source: SOURCE };
  const { id } = await store.put(owner, auth, { secrets: { access_token, refresh_token }, scopes }, clock.now());
  return (await store.open(id))!;
}

describe('two replicas that refresh a grant', () => {
  it('send one request for each generation, by any of them, and store what it gives', async () => {
    const [one, two] = stores();
    let grant = await connected('ann', one);
    const replicas = [replica(one), replica(two)];
    for (let generation = 2; generation <= 5; generation += 1) {
      const got = await Promise.all(Array.from({ length: 20 }, (_, index) => replicas[index % 2]!.refresh(grant, 0)));
      expect(new Set(got.map(({ generation: number, secrets }) => `${number} ${secrets.access_token}`)).size).toBe(1);
      grant = got[0]!;
      expect(grant.generation).toBe(generation);
    }
    expect(login.refreshes.get('ann')).toBe(4);
    expect(login.revoked).toBe(0);
    expect(await login.accountOf(grant.secrets.access_token!)).toBe('ann');
  });

  it('do not send a refresh token again when a process ended between the answer and its commit', async () => {
    const [one, two] = stores();
    const grant = await connected('bob', one);
    // The answer arrives, and the process is gone.
    let answered = false;
    const killed = replica(one, async (...given) => {
      await client.refresh(...given);
      answered = true;
      return new Promise(() => undefined);
    });
    void killed.refresh(grant, 0);
    const other = replica(two);
    await expect.poll(() => answered).toBe(true);
    const waiting = other.refresh(grant, 0);
    clock.shiftMs += 21_000;
    await expect(waiting).rejects.toMatchObject({ code: 'AUTHORIZATION_REQUIRED' });
    expect(login.revoked).toBe(0);
    expect(await two.find(grant, auth)).toEqual({ reason: 'the outcome of the last refresh is unknown' });
    // The user connects again.
    const again = await connected('bob', two);
    expect(await other.refresh(again, 0)).toMatchObject({ generation: again.generation + 1 });
    expect(login.revoked).toBe(0);
  });

  it('send it again within the grace that the authorization server gives, and not later', async () => {
    const [one, two] = stores();
    const grace = async (user: string): Promise<OpenGrant> => {
      const { grant_id: id } = await connected(user, one);
      const granted = { ...auth, refresh_grace_seconds: 30 };
      expect(await one.find({ tenant_id: 'acme', user_id: user, source: SOURCE }, granted)).toEqual({ grant_id: id });
      return (await one.open(id))!;
    };
    const sent: string[] = [];
    const killed = replica(one, (_source, _auth, token) => {
      sent.push(token);
      return new Promise(() => undefined);
    });
    const other = replica(two, async (_source, _auth, token) => {
      sent.push(token);
      return { access_token: 'new', refresh_token: 'next', expires_in: 60 };
    });
    const grant = await grace('gus');
    void killed.refresh(grant, 0);
    await expect.poll(() => sent.length).toBe(1);
    // While a replica may still hold the right, the token that is there is used.
    const usable = await other.refresh(grant, clock.now() + 60_000);
    expect(usable).toMatchObject({ generation: grant.generation, secrets: grant.secrets });
    clock.shiftMs += 16_000;
    expect(await other.refresh(grant, 0)).toMatchObject({ secrets: { access_token: 'new', refresh_token: 'next' } });
    expect(sent).toEqual([grant.secrets.refresh_token, grant.secrets.refresh_token]);
    const late = await grace('ida');
    void killed.refresh(late, 0);
    await expect.poll(() => sent.length).toBe(3);
    clock.shiftMs += 31_000;
    await expect(other.refresh(late, 0)).rejects.toMatchObject({ code: 'AUTHORIZATION_REQUIRED' });
    expect(sent).toHaveLength(3);
  });

  it('store the answer of a holder that was only slow', async () => {
    const [one, two] = stores();
    const grant = await connected('cem', one);
    const gate = Promise.withResolvers<void>();
    const slow = replica(one, async (...given) => {
      const tokens = await client.refresh(...given);
      await gate.promise;
      return tokens;
    }).refresh(grant, 0);
    await expect.poll(async () => (await two.open(grant.grant_id))?.refresh_until).toBeDefined();
    clock.shiftMs += 21_000;
    await expect(replica(two).refresh(grant, 0)).rejects.toMatchObject({ code: 'AUTHORIZATION_REQUIRED' });
    gate.resolve();
    expect(await slow).toMatchObject({ generation: 2, reason: undefined });
    expect(login.revoked).toBe(0);
  });

  it('a refusal of an old generation changes no newer one', async () => {
    const [one, two] = stores();
    const grant = await connected('dee', one);
    const refused = replica(one, async (...given) => {
      // The user connects again meanwhile, and the old refresh token is refused.
      await connected('dee', two);
      return client.refresh(given[0], given[1], 'a refresh token that is not valid');
    });
    await expect(refused.refresh(grant, 0)).rejects.toMatchObject({ code: 'AUTHORIZATION_REQUIRED' });
    const { grant_id: id, reason } = await two.find(grant, auth);
    expect([id === undefined, reason]).toEqual([false, undefined]);
  });

  it('a second consent without a refresh token keeps the one that was there, of the same client and scopes only', async () => {
    const [one] = stores();
    const grant = await connected('eve', one);
    const put = async (other: UserAuth) => {
      const { id } = await one.put(grant, other, { secrets: { access_token: 'second' } }, clock.now());
      return (await one.open(id))!.secrets;
    };
    expect(await put(auth)).toEqual({ access_token: 'second', refresh_token: grant.secrets.refresh_token });
    expect(await put({ ...auth, scopes: ['openid'] })).toEqual({ access_token: 'second' });
    expect(await one.find(grant, auth)).toEqual({ reason: 'the source asks for another authorization since' });
  });

  it('leaves the right to refresh to the next one while the authorization server is unavailable', async () => {
    const [one, two] = stores();
    const grant = await connected('fay', one);
    const away = replica(one, () => Promise.reject(new Error('away')));
    await expect(away.refresh(grant, 0)).rejects.toThrow('away');
    expect(await replica(two).refresh(grant, 0)).toMatchObject({ generation: 2 });
  });
});

describe('a grant that its user deletes', () => {
  const noted: { source: string; reason: string | undefined }[] = [];
  const logger = { info: (line: object) => void noted.push(line as (typeof noted)[number]) };
  const deleteAt = async (
    store: UserGrantStore,
    { user_id, source }: OpenGrant,
    revoke = client.revoke.bind(client),
  ) => {
    noted.length = 0;
    const upstream = new UpstreamRevocation({ store, client: { revoke }, clock, logger });
    upstream.begin(await store.revoke('acme', user_id, source));
    await expect.poll(() => noted).toHaveLength(1);
    return noted[0]!.reason;
  };
  const isValid = ({ source, auth: granted, secrets }: OpenGrant) =>
    client.refresh(source, granted, secrets.refresh_token!).then(
      () => true,
      (error: unknown) => (expect(error).toMatchObject({ kind: 'grant' }), false),
    );

  it('has no token at the authorization server either', async () => {
    const [one] = stores();
    const grant = await connected('gil', one);
    expect(await deleteAt(one, grant)).toBeUndefined();
    expect(await one.open(grant.grant_id)).toBeUndefined();
    expect(await isValid(grant)).toBe(false);
  });

  it('keeps the tokens of another source with the same client, which some servers would end as well', async () => {
    const [one] = stores();
    const grant = await connected('hal', one);
    const { id } = await one.put({ ...grant, source: 'mcp/mail' }, auth, { secrets: grant.secrets }, clock.now());
    const before = login.revoked;
    expect(await deleteAt(one, grant)).toContain('same client');
    expect(login.revoked).toBe(before);
    const other = (await one.open(id))!;
    await one.put({ ...other, user_id: 'ivy' }, auth, { secrets: other.secrets }, clock.now());
    expect(await deleteAt(one, other)).toBeUndefined();
    expect(await isValid(other)).toBe(false);
  });

  it('is deleted here whatever the authorization server answers', async () => {
    const [one] = stores();
    const reasons: (string | undefined)[] = [];
    for (const revoke of [() => Promise.reject(new TypeError('away')), () => Promise.resolve(false)]) {
      const grant = await connected('jon', one);
      reasons.push(await deleteAt(one, grant, revoke));
      expect(await one.open(grant.grant_id)).toBeUndefined();
    }
    expect(reasons).toEqual(['TypeError', 'the authorization server has no revocation_endpoint']);
  });

  it('that is refreshed meanwhile leaves no newer token', async () => {
    const [one, two] = stores();
    const grant = await connected('kim', one);
    const abandoned: OpenGrant[] = [];
    const refresh = new GrantRefresh({
      store: one,
      renew: async ({ source, auth: granted, secrets }) => {
        const tokens = await client.refresh(source, granted, secrets.refresh_token!);
        await two.revoke('acme', 'kim', undefined);
        return tokens;
      },
      abandon: (given) => void abandoned.push(given),
      clock,
    });
    await expect(refresh.refresh(grant, 0)).rejects.toMatchObject({ code: 'AUTHORIZATION_REQUIRED' });
    expect(abandoned).toHaveLength(1);
    expect(abandoned[0]!.secrets.refresh_token).not.toBe(grant.secrets.refresh_token);
    expect(await isValid(abandoned[0]!)).toBe(true);
  });
});
