/** The sign-in of browsers against a real OpenID provider: what works, and every response that must not. */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { FakeClock } from '@toolfleet/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SignInFixture } from '../../spec/sign-in.fixture.js';
import { BrowserDouble } from '../../../../test/doubles/browser-double.js';

const SESSION = /^__Host-toolfleet-session$/;
const ATTEMPT = /^__Host-toolfleet-sign-in-/;

describe('the sign-in of a browser', () => {
  const clock = new FakeClock(Date.now());
  let fixture: SignInFixture;
  let browser: BrowserDouble;

  beforeAll(async () => {
    fixture = await SignInFixture.start(clock);
  });
  afterAll(() => fixture.stop());
  beforeEach(() => {
    browser = new BrowserDouble();
    fixture.company.user = 'alice';
    fixture.company.declines = false;
  });

  /** Goes to the provider and stops before the browser comes back. @returns the address that it would come back to */
  const untilCallback = async (user: BrowserDouble) =>
    (await user.open(`${fixture.origin}/auth/sign-in`, { stopsAt: /\/auth\/callback/ })).url;
  const signIn = async (user: BrowserDouble) =>
    user.open(await untilCallback(user), { from: fixture.company.issuer, stopsAt: /\/console$/ });
  const sessionOf = async (user: BrowserDouble) => {
    const secret = user.cookie(SESSION);
    if (secret === undefined) return undefined;
    return fixture.sessions.get(createHash('sha256').update(secret).digest('base64url'), clock.now());
  };

  it('opens a session with the roles of groups in the configuration file', async () => {
    await signIn(browser);
    expect(await sessionOf(browser)).toMatchObject({
      tenant_id: 'acme',
      user_id: 'alice',
      roles: ['admin'],
      groups: ['platform'],
    });
    expect(browser.cookie(ATTEMPT)).toBeUndefined();
    fixture.company.user = 'bob';
    const member = new BrowserDouble();
    await signIn(member);
    expect(await sessionOf(member)).toMatchObject({ user_id: 'bob', roles: [] });
    fixture.company.user = 'root';
    const operator = new BrowserDouble();
    await signIn(operator);
    expect(await sessionOf(operator)).toMatchObject({ tenant_id: 'operator', roles: ['operator'] });
  });

  it('asks the provider with PKCE, nonce and state, and sets cookies that no script and no other host can use', async () => {
    const begun = await fetch(`${fixture.origin}/auth/sign-in`, { redirect: 'manual' });
    const url = new URL(begun.headers.get('location')!);
    expect(url.searchParams.get('code_challenge_method')).toBe('S256');
    for (const name of ['code_challenge', 'nonce', 'state'])
      expect(url.searchParams.get(name)?.length).toBeGreaterThan(20);
    expect(begun.headers.get('set-cookie')).toMatch(
      /^__Host-.*; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=600$/,
    );
    await signIn(browser);
    const back = await browser.open(await untilCallback(browser), { stopsAt: /\/console$/ });
    expect(back.headers.getSetCookie()[0]).toMatch(
      /^__Host-toolfleet-session=[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict; /,
    );
  });

  it('refuses a response that is replayed, of another browser, altered, or of another provider', async () => {
    const callback = await untilCallback(browser);
    const altered = (name: string, value: string | null) => {
      const url = new URL(callback);
      if (value === null) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
      return url.href;
    };
    const thief = new BrowserDouble();
    await untilCallback(thief);
    expect(await thief.open(callback)).toMatchObject({
      status: 401,
      text: expect.stringContaining('has not begun this sign-in'),
    });
    expect(await new BrowserDouble().open(altered('state', 'short'))).toMatchObject({ status: 401 });
    // RFC 9207: the response of another issuer, or of none, is a mix-up.
    for (const iss of ['https://evil.example', null]) {
      const other = new BrowserDouble();
      const url = new URL(await untilCallback(other));
      if (iss === null) url.searchParams.delete('iss');
      else url.searchParams.set('iss', iss);
      expect(await other.open(url.href)).toMatchObject({
        status: 401,
        text: expect.stringContaining('does not belong to this sign-in'),
      });
      expect(other.cookie(SESSION)).toBeUndefined();
    }
    const wrong = new BrowserDouble();
    const code = new URL(await untilCallback(wrong));
    code.searchParams.set('code', 'a-code-that-nobody-issued');
    expect(await wrong.open(code.href)).toMatchObject({ status: 401 });
    await browser.open(callback, { stopsAt: /\/console$/ });
    expect(browser.cookie(SESSION)).toBeDefined();
    const again = new BrowserDouble();
    expect(await again.open(callback)).toMatchObject({ status: 401 });
    expect(await browser.open(callback)).toMatchObject({ status: 401 });
  });

  it('takes a state once, also when its cookie is presented again', async () => {
    const callback = new URL(await untilCallback(browser));
    const cookie = browser.cookieHeader(callback);
    const ask = () => fetch(callback, { headers: { cookie }, redirect: 'manual' });
    const answers = await Promise.all([ask(), ask(), ask()]);
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(1);
  });

  it('ends attempts after ten minutes', async () => {
    const later = new FakeClock(Date.now());
    const other = await SignInFixture.start(later);
    try {
      const { url } = await browser.open(`${other.origin}/auth/sign-in`, { stopsAt: /\/auth\/callback/ });
      later.advance(600_000);
      expect(await browser.open(url)).toMatchObject({ status: 401 });
    } finally {
      await other.stop();
    }
  });

  it('shows refusals of the provider as text', async () => {
    fixture.company.declines = true;
    const refused = await browser.open(await untilCallback(browser));
    expect(refused).toMatchObject({ status: 401, text: expect.stringContaining('The user &#60;b&#62;declined') });
    expect(refused.headers.get('content-security-policy')).toContain("default-src 'none'");
  });

  it('leads nowhere else: no parameter names where to go on, and other sites cannot begin a sign-in', async () => {
    const begun = await fetch(
      `${fixture.origin}/auth/sign-in?return_to=https://evil.example&redirect_uri=//evil.example`,
      { redirect: 'manual' },
    );
    expect(begun.headers.get('location')).not.toContain('evil');
    const url = new URL(await untilCallback(browser));
    url.searchParams.set('return_to', 'https://evil.example');
    expect((await browser.open(url.href, { stopsAt: /\/console$/ })).url).toBe(`${fixture.origin}/console`);
    const forced = await browser.open(`${fixture.origin}/auth/sign-in`, { from: 'https://evil.example', stopsAt: /./ });
    expect(forced.url).toBe(`${fixture.origin}/console`);
    expect((await browser.open(`${fixture.origin}/auth/sign-in`, { method: 'POST', body: '' })).status).toBe(405);
  });

  it('ends the session at the provider with the ID token as hint', async () => {
    await signIn(browser);
    const digest = createHash('sha256').update(browser.cookie(SESSION)!).digest('base64url');
    const { url, cookie } = await fixture.signOut(digest);
    // Addresses are in histories and logs, so the token is in none of them.
    expect(url).toBe(`${fixture.origin}/auth/sign-out`);
    expect(cookie).toMatch(/; HttpOnly; SameSite=Strict; Max-Age=60$/);
    const shown = await fetch(url!, { headers: { cookie: cookie!.split(';', 1)[0]! } });
    const html = await shown.text();
    expect(html).toMatch(/<form method="post" action="http:\/\/127\.0\.0\.1:\d+\/session\/end">/);
    expect(html).toContain(`name="post_logout_redirect_uri" value="${fixture.origin}/console"`);
    expect(html).toMatch(/name="id_token_hint" value="ey/);
    expect(shown.headers.getSetCookie()[0]).toMatch(/^__Host-toolfleet-logout=; .*Max-Age=0$/);
    expect((await fetch(url!, { redirect: 'manual' })).headers.get('location')).toBe('/console');
    expect(await sessionOf(browser)).toBeUndefined();
    expect(await fixture.signOut(digest)).toEqual({});
  });

  describe('logouts of the provider', () => {
    const logOut = (token: string) =>
      fetch(`${fixture.origin}/auth/backchannel-logout`, {
        method: 'POST',
        body: new URLSearchParams({ logout_token: token }),
      });

    it('end one session by sid, or all of a user by sub', async () => {
      const other = new BrowserDouble();
      await signIn(browser);
      await signIn(other);
      const { sid } = (await sessionOf(browser))!.provider!;
      const response = await logOut(await fixture.company.logoutToken({ sub: 'alice', sid }));
      expect([response.status, response.headers.get('cache-control')]).toEqual([200, 'no-store']);
      expect(await sessionOf(browser)).toBeUndefined();
      expect(await sessionOf(other)).toBeDefined();
      expect((await logOut(await fixture.company.logoutToken({ sub: 'alice' }))).status).toBe(200);
      expect(await sessionOf(other)).toBeUndefined();
    });

    it('are refused unless the provider signed them for this fleet, now, once', async () => {
      await signIn(browser);
      const { company } = fixture;
      const once = await company.logoutToken({ sub: 'nobody' });
      expect((await logOut(once)).status).toBe(200);
      const now = Math.floor(Date.now() / 1_000);
      const bad = [
        once,
        'not a token',
        await company.logoutToken({ sub: 'alice', iss: 'https://evil.example' }),
        await company.logoutToken({ sub: 'alice', aud: 'another-client' }),
        await company.logoutToken({ sub: 'alice', events: {} }),
        await company.logoutToken({ sub: 'alice', nonce: 'of an ID token' }),
        await company.logoutToken({ sub: 'alice', jti: undefined }),
        await company.logoutToken({ sub: 'alice', iat: now - 3_600, exp: now + 60 }),
        await company.logoutToken({}),
        await company.logoutToken({ sub: 'alice' }, { kid: 'unknown' }),
        `${(await company.logoutToken({ sub: 'alice' })).slice(0, -8)}AAAAAAAA`,
        // Without a signature.
        `${Buffer.from('{"alg":"none"}').toString('base64url')}.${once.split('.')[1]}.`,
      ];
      for (const token of bad) {
        const response = await logOut(token);
        expect([response.status, token.slice(0, 20)]).toEqual([400, token.slice(0, 20)]);
        expect(await response.json()).toMatchObject({ error: 'invalid_request' });
      }
      expect((await fetch(`${fixture.origin}/auth/backchannel-logout`, { method: 'POST', body: 'x=y' })).status).toBe(
        400,
      );
      expect(await sessionOf(browser)).toBeDefined();
    });
  });
});

describe('users and tenants', () => {
  it.each([
    ['a user outside the groups', { groups: ['nobody-is-in-it'] }, 403, 'none of the groups'],
    ['a missing tenant', { tenant: undefined, tenant_claim: 'tenant' }, 401, 'no valid claim &#34;tenant&#34;'],
    ['a missing user', { user_claim: 'upn' }, 401, 'no valid claim &#34;upn&#34;'],
    ['a user whose groups are too many to send', { groups: ['platform'] }, 403, 'more groups than the provider sends'],
  ])('refuse %s', async (what, section, status, message) => {
    const fixture = await SignInFixture.start(new FakeClock(Date.now()), section);
    if (what.includes('too many'))
      fixture.users['alice'] = {
        _claim_names: { groups: 'src1' },
        _claim_sources: { src1: { endpoint: 'https://g' } },
      };
    try {
      const shown = await new BrowserDouble().open(`${fixture.origin}/auth/sign-in`);
      expect(shown).toMatchObject({ status, text: expect.stringContaining(message) });
    } finally {
      await fixture.stop();
    }
  });

  it('wait for the right issuer: one that differs by its last slash is named with the right one', async () => {
    const server = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ issuer: named }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const named = `http://127.0.0.1:${(server.address() as AddressInfo).port}/realms/a`;
    const fixture = await SignInFixture.start(new FakeClock(Date.now()), { issuer: `${named}/` });
    try {
      const shown = await new BrowserDouble().open(`${fixture.origin}/auth/sign-in`);
      expect(shown.text).toContain(`sign_in.issuer is ${named}/, and the provider names itself ${named};`);
    } finally {
      await fixture.stop();
      server.close();
    }
  });
});

describe('users named by their address', () => {
  const clock = new FakeClock(Date.now());
  const email = 'alice@example.com';
  let strict: SignInFixture;
  let trusting: SignInFixture;
  beforeAll(async () => {
    strict = await SignInFixture.start(clock, { user_claim: 'email' });
    trusting = await SignInFixture.start(clock, { user_claim: 'email', insecure_skip_email_verified: true });
  });
  afterAll(() => Promise.all([strict, trusting].map((fixture) => fixture?.stop())));

  /** Signs in with claims in the ID token and in userinfo. @returns the user of the session, or what the page says */
  const signIn = async ({ company, origin, users, sessions }: SignInFixture, idToken: object, userInfo: object) => {
    users['mallory'] = { ...userInfo };
    Object.assign(company, { user: 'mallory', idTokenClaims: idToken });
    const browser = new BrowserDouble();
    const shown = await browser.open(`${origin}/auth/sign-in`, { stopsAt: /\/console$/ });
    const secret = browser.cookie(SESSION);
    if (secret === undefined) return `${shown.status} ${shown.text}`;
    return (await sessions.get(createHash('sha256').update(secret).digest('base64url'), clock.now()))?.user_id;
  };
  /** The same claims where providers put them: in userinfo only, in both, the address in both. */
  const places = (claims: object): [object, object][] => [
    [{}, claims],
    [claims, claims],
    [{ email }, claims],
  ];

  it.each([true, 'true'])('sign in if the provider says that it is verified: %j', async (verified) => {
    for (const fixture of [strict, trusting])
      for (const [idToken, userInfo] of places({ email, email_verified: verified }))
        expect(await signIn(fixture, idToken, userInfo)).toBe(email);
  });

  it.each([false, 'false', 'True', 'TRUE', 'yes', '', '1', 0, 1, null, [], [true], {}].map((value) => ({ value })))(
    'are refused if it says anything else: $value',
    async ({ value }) => {
      for (const fixture of [strict, trusting])
        for (const [idToken, userInfo] of places({ email, email_verified: value }))
          expect(await signIn(fixture, idToken, userInfo)).toMatch(/^401 .*not verified .*sign_in\.user_claim: sub/s);
    },
  );

  it('are refused if it does not say, unless the operator trusts it', async () => {
    for (const [idToken, userInfo] of places({ email })) {
      expect(await signIn(strict, idToken, userInfo)).toMatch(
        /^401 .*sign_in\.user_claim: sub, or sign_in\.insecure_skip_email_verified/s,
      );
      expect(await signIn(trusting, idToken, userInfo)).toBe(email);
    }
  });

  it('are refused if what it says is about another address, or about none', async () => {
    const other = { email: 'mallory@example.com', email_verified: true };
    for (const fixture of [strict, trusting])
      for (const [idToken, userInfo] of [
        [{ email }, other],
        [{ email_verified: true }, { email }],
        [{ email }, { email_verified: false }],
        [{ email_verified: false }, { email }],
      ] as const)
        expect(await signIn(fixture, idToken, userInfo)).toMatch(/^401 .*not verified/s);
  });
});
