import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { invalidRequest, CATALOGUE, isToolError, ToolError } from '@toolfleet/contracts';
import type { IdentityHttpReply, SignOut, SignOutReply } from '@toolfleet/contracts/sign-in';
import type { SignInSettings } from '@toolfleet/fleet-file';
import type { Clock } from '@toolfleet/resilience';
import type { KeyRing } from '@toolfleet/service';
import type { Logger } from '@toolfleet/telemetry';
import type { SessionStore } from '../session-store.js';
import type { SignInTokens } from '../sign-in-tokens.js';
import { sessionMs, type ProviderAsks } from './provider-asks.js';
import { LOGOUT_TOKEN_SECONDS, type CompanyProvider, type LogoutForm, type ProvenUser } from './company-provider.js';
import type { SignInAttempts, UsedOnce } from './sign-in-attempts.js';
import { isOverage, userOfClaims, type SignedInUser } from './user-of-claims.js';
import { logoutPage } from './logout-page.js';
import { cookie, errorPage, json, openCookie, redirect, type WebRequest } from './web.js';

/** The cookie of a session, read by gateways. `Strict`: no other site can make a browser send it, not even by a link. */
const SESSION_COOKIE = '__Host-toolfleet-session';
/** The form with which a browser ends its session at the provider, sealed until the page that has it is shown. */
const LOGOUT_COOKIE = '__Host-toolfleet-logout';
const LOGOUT_SECONDS = 60;
/** Browsers drop larger cookies. */
const MAX_COOKIE = 4_000;

/** Where the browser goes on after a sign-in for an OAuth client. */
type ContinueAuthorization = (
  interaction: string,
  user: SignedInUser,
  proven: ProvenUser,
  sessionId: string,
) => IdentityHttpReply;

interface ConsoleSignInDeps {
  settings: SignInSettings;
  provider: CompanyProvider;
  attempts: SignInAttempts;
  used: UsedOnce;
  sessions: SessionStore;
  /** Keeps the tokens of the provider. */
  keptTokens: Pick<SignInTokens, 'keep' | 'of'>;
  asks: Pick<ProviderAsks, 'begin'>;
  keys: Pick<KeyRing, 'seal' | 'open'>;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn'>;
}

/** The pages below `/auth/`: a browser signs in at the company's provider and gets a session; the provider ends sessions. */
export class ConsoleSignIn {
  /** Set by the authorization server. */
  continueAuthorization: ContinueAuthorization = () => redirect('/console');

  constructor(private readonly deps: ConsoleSignInDeps) {}

  /** @returns undefined for a path that is not its own */
  async handle(request: WebRequest): Promise<IdentityHttpReply | undefined> {
    const { pathname } = request.url;
    if (pathname === '/auth/sign-in') return this.#begin(request);
    if (pathname === '/auth/callback') return this.#finish(request);
    if (pathname === '/auth/sign-out') return this.#leave(request);
    if (pathname === '/auth/backchannel-logout') return this.#logout(request);
    return undefined;
  }

  /** Sends the browser to the provider. @param interaction the authorization request of an OAuth client; absent: the console */
  async toProvider({ origin }: WebRequest, interaction?: string): Promise<IdentityHttpReply> {
    const { url, checks } = await this.deps.provider.begin(`${origin}/auth/callback`);
    return redirect(url, [this.deps.attempts.remember({ ...checks, interaction })]);
  }

  /** Ends a session here. @returns the page that ends the one at the provider */
  async signOut({ digest, origin }: SignOut): Promise<SignOutReply> {
    const { sessions, provider, keptTokens, clock, logger } = this.deps;
    const [ended] = (await sessions.revoke({ digest }, clock.now())).ended;
    if (!ended) return {};
    try {
      const idToken = (await keptTokens.of(ended))?.secrets.id_token;
      const returnTo = `${origin}/console`;
      const form = await provider.logoutForm(idToken, returnTo);
      if (!form) return {};
      const seal = (sealed: LogoutForm) => this.deps.keys.seal(JSON.stringify(sealed), LOGOUT_COOKIE);
      const whole = seal(form);
      const { id_token_hint: _, ...fields } = form.fields;
      // Without the hint the provider asks its user.
      const value = whole.length <= MAX_COOKIE ? whole : seal({ ...form, fields });
      return {
        url: `${origin}/auth/sign-out`,
        cookie: cookie(LOGOUT_COOKIE, value, LOGOUT_SECONDS, 'Strict'),
      };
    } catch (error) {
      // The session here has ended; that at the provider ends by itself.
      logger.warn({ error }, 'the OpenID provider cannot be asked where its sessions end');
      return {};
    }
  }

  /** Posts the form of a session that has ended. */
  #leave(request: WebRequest): IdentityHttpReply {
    if (request.method !== 'GET') return methodNotAllowed('GET');
    const form = openCookie<LogoutForm>(request, LOGOUT_COOKIE, this.deps.keys, LOGOUT_COOKIE);
    return form ? logoutPage(form, [cookie(LOGOUT_COOKIE, '', 0, 'Strict')]) : redirect('/console');
  }

  async #begin(request: WebRequest): Promise<IdentityHttpReply> {
    if (request.method !== 'GET') return methodNotAllowed('GET');
    // A page of another site cannot start a sign-in; its user starts it in the console.
    if (request.headers.get('sec-fetch-site') === 'cross-site') return redirect('/console');
    try {
      return await this.toProvider(request);
    } catch (error) {
      return errorPage(error);
    }
  }

  async #finish(request: WebRequest): Promise<IdentityHttpReply> {
    if (request.method !== 'GET') return methodNotAllowed('GET');
    const { attempts, provider, settings } = this.deps;
    const { url } = request;
    const state = url.searchParams.get('state') ?? '';
    const clear = attempts.forget(state);
    try {
      const attempt = await attempts.take(state, request);
      if (!attempt)
        throw new ToolError('UNAUTHENTICATED', {
          message:
            'This browser has not begun this sign-in, or it took longer than ten minutes, or it is already used. Sign in again.',
        });
      const proven = await provider.finish(url, attempt);
      const user = userOfClaims(proven.claims, settings);
      if (isOverage(proven.claims, settings.groups_claim))
        this.deps.logger.warn({ user_id: user.userId }, 'the provider sent no groups because the user is in too many');
      const sessionId = randomUUID();
      await this.deps.keptTokens.keep(sessionId, user, proven.tokens);
      const next =
        attempt.interaction === undefined
          ? redirect('/console', [await this.#openSession(sessionId, user, proven)])
          : this.continueAuthorization(attempt.interaction, user, proven, sessionId);
      return { ...next, headers: [...next.headers, ['set-cookie', clear]] };
    } catch (error) {
      this.deps.logger.warn({ error }, 'a sign-in failed');
      return errorPage(error, [clear]);
    }
  }

  async #openSession(session_id: string, user: SignedInUser, { issuer, subject, sid }: ProvenUser): Promise<string> {
    const { sessions, settings, asks, clock, logger } = this.deps;
    const secret = randomBytes(32).toString('base64url');
    const lifeMs = sessionMs(settings);
    const now = clock.now();
    const session = {
      session_id,
      digest: createHash('sha256').update(secret).digest('base64url'),
      tenant_id: user.tenantId,
      user_id: user.userId,
      roles: user.roles,
      groups: user.groups,
      expires_at: now + lifeMs,
      ask_at: asks.begin(user),
      provider: { issuer, subject, sid },
    };
    await sessions.create(session, now);
    logger.info({ session_id, tenant_id: user.tenantId, user_id: user.userId, roles: user.roles }, 'a user signed in');
    return cookie(SESSION_COOKIE, secret, lifeMs / 1_000, 'Strict');
  }

  /** OpenID Connect Back-Channel Logout 1.0 section 2.5: the provider ends sessions, here by `sid`, else all of a user. */
  async #logout(request: WebRequest): Promise<IdentityHttpReply> {
    if (request.method !== 'POST') return methodNotAllowed('POST');
    const { provider, used, sessions, clock, logger } = this.deps;
    try {
      const token = new URLSearchParams(request.body).get('logout_token');
      if (token === null) throw invalidRequest('The form must have the field logout_token');
      const { issuer, sid, subject, jti } = await provider.readLogout(token);
      // A token is accepted for its age and the tolerance of clocks.
      if (!(await used.use('logout', `${issuer} ${jti}`, LOGOUT_TOKEN_SECONDS + 120)))
        throw invalidRequest('The logout token was used before');
      const scope = sid === undefined ? { issuer, subject } : { issuer, sid, subject };
      const { revoked } = await sessions.revoke(scope, clock.now());
      logger.info({ issuer, sessions: revoked }, 'the OpenID provider ended sessions');
      return { status: 200, headers: [['cache-control', 'no-store']], body: '' };
    } catch (error) {
      if (!isToolError(error)) throw error;
      const code = error.code === 'REQUEST_INVALID' ? 'invalid_request' : 'temporarily_unavailable';
      return json(CATALOGUE[error.code].http, { error: code, error_description: error.message });
    }
  }
}

const methodNotAllowed = (allowed: string): IdentityHttpReply => ({
  status: 405,
  headers: [['allow', allowed]],
  body: '',
});
