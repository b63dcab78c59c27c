/** Users who change groups or leave, at a real OpenID provider that rotates refresh tokens; with two replicas on one store. */
import { createHash } from 'node:crypto';
import { auth } from '@modelcontextprotocol/client';
import { FakeClock } from '@toolfleet/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SignInFixture } from '../../spec/sign-in.fixture.js';
import { BrowserDouble } from '../../../../test/doubles/browser-double.js';
import { CLIENT_ID, CLIENT_SECRET } from '../../../../test/doubles/openid-provider.js';
import { OAuthClientDouble } from '../../../../test/doubles/oauth-client.js';

const SESSION = /^__Host-toolfleet-session$/;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

describe('a user who is signed in', () => {
  const clock = new FakeClock(Date.now());
  let fixture: SignInFixture;
  let user = 0;
  let name: string;
  beforeAll(async () => {
    fixture = await SignInFixture.start(clock, { clients: { registration: true } });
  });
  afterAll(() => fixture.stop());
  beforeEach(() => {
    name = `user-${(user += 1)}`;
    fixture.users[name] = { groups: ['platform'] };
    Object.assign(fixture.company, { user: name, givesAccessOnly: false, isDown: false });
  });

  const signIn = async (): Promise<BrowserDouble> => {
    const browser = new BrowserDouble();
    const { url } = await browser.open(`${fixture.origin}/auth/sign-in`, { stopsAt: /\/auth\/callback/ });
    await browser.open(url, { from: fixture.company.issuer, stopsAt: /\/console$/ });
    return browser;
  };
  const sessionOf = (browser: BrowserDouble) =>
    fixture.sessions.get(createHash('sha256').update(browser.cookie(SESSION)!).digest('base64url'), clock.now());
  const options = (more: object = {}) => ({ serverUrl: `${fixture.origin}/mcp`, ...more });
  /** A client before the consent of its user. */
  const begin = async () => {
    const [client, browser] = [new OAuthClientDouble(), new BrowserDouble()];
    await auth(client, options());
    const page = await browser.open(client.authorizationUrl!.href, { from: 'https://agent.example' });
    const allow = { method: 'POST', body: 'decision=allow', from: fixture.origin, stopsAt: /127\.0\.0\.1:33333/ };
    return { client, allow: () => browser.open(page.url, allow) };
  };
  const connect = async (): Promise<OAuthClientDouble> => {
    const { client, allow } = await begin();
    const answer = new URL((await allow()).url).searchParams;
    await auth(client, options({ authorizationCode: answer.get('code')!, iss: answer.get('iss')! }));
    return client;
  };
  /** The session of the user's client. Its access tokens have the time of the machine. */
  const clientSession = async () =>
    (await fixture.sessions.list({ tenant_id: 'acme', user_id: name }, clock.now())).find(({ client }) => client);
  /** Lets time pass, and replicas look. */
  const later = async (ms: number, replicas = fixture.replicas) => {
    clock.jumpWall(ms);
    await Promise.all(replicas.map((replica) => replica.run()));
  };

  it('has the roles of the groups of today, in browsers and OAuth clients, also after a refresh of the client', async () => {
    const [browser, client] = [await signIn(), await connect()];
    expect([(await sessionOf(browser))?.roles, (await clientSession())?.roles]).toEqual([['admin'], ['admin']]);
    fixture.users[name] = { groups: [] };
    await later(9 * MINUTE);
    expect((await sessionOf(browser))?.roles).toEqual(['admin']);
    await later(MINUTE);
    expect([(await sessionOf(browser))?.roles, (await clientSession())?.roles]).toEqual([[], []]);
    expect(await auth(client, options())).toBe('AUTHORIZED');
    expect((await clientSession())?.roles).toEqual([]);
    expect(fixture.announced.at(-1)).toEqual({ tenant_id: 'acme', user_id: name, roles: [] });
    fixture.users[name] = { groups: ['platform'] };
    await later(10 * MINUTE);
    expect((await sessionOf(browser))?.roles).toEqual(['admin']);
  });

  it('loses the session when the provider refuses, and at once all others, with the tokens of clients', async () => {
    const browser = await signIn();
    clock.jumpWall(5 * MINUTE);
    const client = await connect();
    fixture.company.disabled.add(name);
    await later(5 * MINUTE);
    expect(await sessionOf(browser)).toBeUndefined();
    await later(0);
    expect(await clientSession()).toBeUndefined();
    const form = {
      ...{ grant_type: 'refresh_token', client_id: client.client!.client_id },
      refresh_token: client.kept!.refresh_token!,
    };
    const token = await fetch(`${fixture.origin}/oauth/token`, { method: 'POST', body: new URLSearchParams(form) });
    expect([token.status, ((await token.json()) as { error: string }).error]).toEqual([400, 'invalid_grant']);
  });

  it('loses it as well when the provider gives another name', async () => {
    const browser = await signIn();
    fixture.users[name] = { groups: ['fleet'] };
    await later(10 * MINUTE);
    expect(await sessionOf(browser)).toBeUndefined();
  });

  it('keeps it for an hour while the provider does not answer, and again once it does', async () => {
    const browser = await signIn();
    fixture.company.isDown = true;
    for (let minutes = 0; minutes < 60; minutes += 10) await later(10 * MINUTE);
    expect((await sessionOf(browser))?.roles).toEqual(['admin']);
    await later(MINUTE);
    await expect(sessionOf(browser)).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    fixture.company.isDown = false;
    fixture.users[name] = { groups: [] };
    clock.jumpWall(31_000);
    expect((await sessionOf(browser))?.roles).toEqual([]);
  });

  it('is asked about once by two replicas, whose refreshes rotate', async () => {
    const browser = await signIn();
    await later(0);
    const { refreshes, revokedFamilies } = fixture.company;
    for (let round = 0; round < 10; round += 1) await later(10 * MINUTE);
    const found = await sessionOf(browser);
    expect(found?.roles).toEqual(['admin']);
    // The sessions of other tests are asked about as well.
    const sessions = await fixture.sessions.list({ tenant_id: 'acme' }, clock.now());
    const asked = sessions.filter(({ asked_at: at }) => at !== undefined).length;
    expect(fixture.company.refreshes - refreshes).toBe(10 * asked);
    expect(fixture.company.revokedFamilies).toBe(revokedFamilies);
    // Both hold the same session at once, as after a lease that ended.
    clock.jumpWall(10 * MINUTE);
    const answers = await Promise.all(
      fixture.replicas.flatMap((replica) => [replica.ask(found!), replica.ask(found!)]),
    );
    expect(answers).toHaveLength(4);
    expect(fixture.company.refreshes - refreshes).toBe(10 * asked + 1);
    expect(fixture.company.revokedFamilies).toBe(revokedFamilies);
  });

  it('is asked about with the access token where there is no refresh token, and lasts at most session_hours', async () => {
    fixture.company.givesAccessOnly = true;
    const browser = await signIn();
    await connect();
    for (const session of [await sessionOf(browser), await clientSession()])
      expect(session!.expires_at - clock.now()).toBeLessThanOrEqual(12 * HOUR);
    fixture.users[name] = { groups: [] };
    await later(10 * MINUTE);
    expect([(await sessionOf(browser))?.roles, (await clientSession())?.roles]).toEqual([[], []]);
    await later(2 * HOUR);
    expect((await sessionOf(browser))?.roles).toEqual([]);
    expect((await sessionOf(browser))?.asked_at).toBeUndefined();
    const other = await signIn();
    fixture.company.disabled.add(name);
    await later(10 * MINUTE);
    expect(await sessionOf(other)).toBeUndefined();
  });

  it('is asked about by introspection where the provider has no userinfo', async () => {
    const usual = fixture;
    fixture = await SignInFixture.start(clock, {}, fetch, {
      ...{ userinfo: { enabled: false }, introspection: { enabled: true }, revocation: { enabled: true } },
    });
    try {
      Object.assign(fixture.company, { user: name, givesAccessOnly: true, idTokenClaims: { groups: ['platform'] } });
      const browser = await signIn();
      const { session_id, asked_at: signedInAt } = (await sessionOf(browser))!;
      await later(10 * MINUTE);
      const found = await sessionOf(browser);
      expect(found).toMatchObject({ roles: ['admin'], asked_at: signedInAt! + 10 * MINUTE });
      const { secrets } = (await fixture.signIns.of({ session_id, tenant_id: 'acme', user_id: name }))!;
      const revoked = await fetch(`${fixture.company.issuer}/token/revocation`, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from(`${CLIENT_ID}:${CLIENT_SECRET}`).toString('base64')}` },
        body: new URLSearchParams({ token: secrets.access_token! }),
      });
      expect(revoked.status).toBe(200);
      await later(10 * MINUTE);
      expect(await sessionOf(browser)).toBeUndefined();
    } finally {
      await fixture.stop();
      fixture = usual;
    }
  });

  it('opens no session by a consent that was under way when it was revoked', async () => {
    const { allow } = await begin();
    await fixture.signIns.forgetUser({ tenant_id: 'acme', user_id: name });
    expect((await allow()).status).toBe(401);
    expect(await fixture.sessions.list({ tenant_id: 'acme', user_id: name }, clock.now())).toEqual([]);
  });
});
