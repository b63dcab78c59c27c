import { claimAt } from '@toolfleet/access';
import { invalidRequest, ToolError, type JsonObject } from '@toolfleet/contracts';
import { addressFault } from '@toolfleet/contracts/person-address';
import type { egressFetch } from '@toolfleet/egress';
import type { SignInSettings } from '@toolfleet/fleet-file';
import { toTokens, type Tokens } from '@toolfleet/oauth';
import type { Clock } from '@toolfleet/resilience';
import { createRemoteJWKSet, customFetch as jwksFetch, decodeJwt, jwtVerify, type JWTVerifyGetKey } from 'jose';
import * as openid from 'openid-client';
import type { SignInAttempt } from './sign-in-attempts.js';

/** Reaches public hosts, and the origins that the operator allowed. */
export type GuardedFetch = ReturnType<typeof egressFetch>;

/** Verified claims of a provider about a user. */
export interface ProvenUser {
  claims: JsonObject;
  issuer: string;
  subject: string;
  /** The provider's session, for logouts that it begins. */
  sid?: string;
  /** The ID token is also `id_token_hint` of the logout. */
  tokens: Tokens & { id_token: string };
}

/** The answer of a provider about a user. */
export type ProviderAnswer =
  | { claims: JsonObject }
  /** The user is known, and nothing else is said. */
  | 'confirmed'
  /** There are no tokens to ask with, or nothing that tells about them. */
  | 'unknown';

/** A form that a browser posts to the provider. Its ID token would stay in histories and logs as a part of an address. */
export interface LogoutForm {
  action: string;
  fields: { client_id: string; post_logout_redirect_uri: string; id_token_hint?: string };
}

/** Which sessions a provider ends. */
interface ProviderLogout {
  issuer: string;
  sid?: string;
  subject?: string;
  /** Single-use id of the token. */
  jti: string;
}

/** The metadata of the provider is read again after this time, so that it can move its endpoints. */
const METADATA_MS = 3_600_000;
const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout';
/** Longest age of a logout token; a replay is refused for longer than this. */
export const LOGOUT_TOKEN_SECONDS = 300;

/**
 * The company's OpenID provider, with this fleet as its relying party (OpenID Connect Core 1.0): authorization code with PKCE, nonce
 * and state, logout at the provider and by the provider. The issuer of a response is compared as RFC 9207 says.
 */
export class CompanyProvider {
  #metadata: { found: Promise<openid.Configuration>; until: number } | undefined;
  #keys: { uri: string; find: JWTVerifyGetKey } | undefined;

  constructor(
    private readonly settings: SignInSettings & { issuer: string; client_id: string },
    private readonly clientSecret: () => string | undefined,
    private readonly fetch: GuardedFetch,
    private readonly clock: Clock,
  ) {}

  /** The address that a browser goes to, and the values that its answer is checked against. @throws ToolError SERVICE_UNAVAILABLE */
  async begin(
    redirectUri: string,
  ): Promise<{ url: string; checks: Pick<SignInAttempt, 'state' | 'nonce' | 'verifier'> }> {
    const config = await this.#discover();
    const checks = {
      state: openid.randomState(),
      nonce: openid.randomNonce(),
      verifier: openid.randomPKCECodeVerifier(),
    };
    const url = openid.buildAuthorizationUrl(config, {
      redirect_uri: redirectUri,
      scope: ['openid', ...(this.settings.scopes ?? ['profile', 'email'])].join(' '),
      response_type: 'code',
      state: checks.state,
      nonce: checks.nonce,
      code_challenge: await openid.calculatePKCECodeChallenge(checks.verifier),
      code_challenge_method: 'S256',
    });
    const fault = addressFault(url.href);
    if (fault !== undefined)
      throw new ToolError('SERVICE_UNAVAILABLE', { message: `The sign-in page of the provider is refused: ${fault}` });
    return { url: url.href, checks };
  }

  /**
   * Exchanges the code of a response.
   * @param response the address that the provider sent the browser to
   * @throws ToolError UNAUTHENTICATED for a response that does not belong to the attempt, or that the provider refuses
   */
  async finish(response: URL, attempt: SignInAttempt): Promise<ProvenUser> {
    const config = await this.#discover();
    try {
      const tokens = await openid.authorizationCodeGrant(config, response, {
        expectedState: attempt.state,
        expectedNonce: attempt.nonce,
        pkceCodeVerifier: attempt.verifier,
        idTokenExpected: true,
      });
      const idClaims = tokens.claims()!;
      const userInfo = await this.#userInfo(config, tokens.access_token, idClaims as JsonObject & { sub: string });
      const claims = mergeClaims(idClaims as JsonObject, (userInfo ?? {}) as JsonObject);
      const sid = typeof idClaims['sid'] === 'string' ? idClaims['sid'] : undefined;
      const kept = { ...toTokens(tokens), id_token: tokens.id_token! };
      return { claims, issuer: idClaims.iss, subject: idClaims.sub, sid, tokens: kept };
    } catch (error) {
      throw refused(error);
    }
  }

  /**
   * The claims of a user who signed in earlier, as they are now.
   * @param idToken of the response to a refresh, validated by the caller
   * @throws ToolError UNAUTHENTICATED when it no longer knows the access token or the user; other errors when it does not answer
   */
  async ask(accessToken: string, idToken: string | undefined, subject: string): Promise<ProviderAnswer> {
    const config = await this.#discover();
    const idClaims: JsonObject = idToken === undefined ? {} : (decodeJwt(idToken) as JsonObject);
    if ((idClaims['sub'] ?? subject) !== subject) throw gone('its ID token is that of another user');
    try {
      const said = await this.#userInfo(config, accessToken, { ...idClaims, sub: subject });
      if (said || idToken !== undefined)
        return this.#answer(mergeClaims(idClaims, (said ?? {}) as JsonObject), this.settings.user_claim);
      if (config.serverMetadata().introspection_endpoint === undefined) return 'unknown';
      const { active, ...claims } = await openid.tokenIntrospection(config, accessToken);
      if (!active) throw gone('the access token is no longer active');
      return this.#answer({ ...claims, sub: subject } as JsonObject, this.settings.groups_claim ?? 'groups');
    } catch (error) {
      if (error instanceof openid.WWWAuthenticateChallengeError && error.status === 401)
        throw gone('userinfo is refused');
      throw error;
    }
  }

  /** Providers may leave claims out of a refreshed ID token, or an introspection: without this one, no others are concluded from it. */
  #answer(claims: JsonObject, needed = 'sub'): ProviderAnswer {
    return claimAt(claims, needed) === undefined ? 'confirmed' : { claims };
  }

  /**
   * The form with which a browser ends its session at the provider (OpenID Connect RP-Initiated Logout 1.0); undefined if the provider has
   * no address for it.
   */
  async logoutForm(idToken: string | undefined, returnTo: string): Promise<LogoutForm | undefined> {
    const action = (await this.#discover()).serverMetadata().end_session_endpoint;
    if (action === undefined || addressFault(action) !== undefined) return undefined;
    const fields = {
      client_id: this.settings.client_id,
      post_logout_redirect_uri: returnTo,
      ...(idToken === undefined ? {} : { id_token_hint: idToken }),
    };
    return { action, fields };
  }

  /**
   * Verifies a logout token (OpenID Connect Back-Channel Logout 1.0 section 2.6). The caller refuses a `jti` that it has seen.
   * @throws ToolError REQUEST_INVALID
   */
  async readLogout(token: string): Promise<ProviderLogout> {
    const metadata = (await this.#discover()).serverMetadata();
    try {
      const { payload } = await jwtVerify(token, this.#keysOf(metadata.jwks_uri), {
        issuer: metadata.issuer,
        audience: this.settings.client_id,
        algorithms: (metadata.id_token_signing_alg_values_supported ?? ['RS256']).filter(isAsymmetric),
        requiredClaims: ['iat', 'jti', 'events'],
        maxTokenAge: LOGOUT_TOKEN_SECONDS,
        clockTolerance: 30,
        currentDate: new Date(this.clock.now()),
      });
      const { sub: subject, sid, nonce, events, jti } = payload as typeof payload & { sid?: unknown; events?: unknown };
      const event = typeof events === 'object' && events !== null ? (events as JsonObject)[LOGOUT_EVENT] : undefined;
      if (typeof event !== 'object' || event === null) throw new Error(`events has no ${LOGOUT_EVENT}`);
      if (nonce !== undefined) throw new Error('it has a nonce, so it is an ID token');
      if (sid !== undefined && typeof sid !== 'string') throw new Error('sid must be a string');
      if (subject === undefined && sid === undefined) throw new Error('it has neither sub nor sid');
      return { issuer: metadata.issuer, subject, sid, jti: jti! };
    } catch (error) {
      throw invalidRequest(`The logout token is refused: ${(error as Error).message}`);
    }
  }

  /** Claims that providers leave out of ID tokens; undefined if none is missing, or the provider has no endpoint for them. */
  async #userInfo(
    config: openid.Configuration,
    accessToken: string,
    idClaims: JsonObject & { sub: string },
  ): Promise<object | undefined> {
    if (config.serverMetadata().userinfo_endpoint === undefined) return undefined;
    const { user_claim: user = 'sub', tenant_claim: tenant, groups_claim: groups = 'groups' } = this.settings;
    const verified = user === 'email' ? ['email_verified'] : [];
    const needed = [user, groups, ...verified, ...(tenant === undefined ? [] : [tenant])];
    if (needed.every((name) => claimAt(idClaims, name) !== undefined)) return undefined;
    return openid.fetchUserInfo(config, accessToken, idClaims.sub);
  }

  #discover(): Promise<openid.Configuration> {
    const now = this.clock.monotonic();
    if (this.#metadata && now < this.#metadata.until) return this.#metadata.found;
    const found = this.#read();
    this.#metadata = { found, until: now + METADATA_MS };
    found.catch(() => (this.#metadata = undefined));
    return found;
  }

  async #read(): Promise<openid.Configuration> {
    const { issuer, client_id: clientId } = this.settings;
    const secret = this.clientSecret();
    try {
      return await openid.discovery(
        new URL(issuer),
        clientId,
        { client_secret: secret },
        secret === undefined ? openid.None() : undefined,
        {
          [openid.customFetch]: this.fetch as unknown as openid.CustomFetch,
          // Only an address of this machine may be http, as the configuration file says.
          ...(issuer.startsWith('http:') ? { execute: [openid.allowInsecureRequests] } : {}),
        },
      );
    } catch (cause) {
      const named = issuerIn(cause as Error);
      if (named !== undefined)
        throw new ToolError('AUTH_NOT_CONFIGURED', {
          message: `sign_in.issuer is ${issuer}, and the provider names itself ${named}; set sign_in.issuer to that if it is right`,
          cause,
        });
      const message = `The OpenID provider ${issuer} cannot be reached; retry later`;
      throw new ToolError('SERVICE_UNAVAILABLE', { message, cause });
    }
  }

  #keysOf(uri: string | undefined): JWTVerifyGetKey {
    if (uri === undefined) throw new Error('the provider names no keys');
    if (this.#keys?.uri !== uri)
      this.#keys = { uri, find: createRemoteJWKSet(new URL(uri), { [jwksFetch]: this.fetch }) };
    return this.#keys.find;
  }
}

/** The issuer that metadata name, where that is why they are refused. */
function issuerIn({ code, cause }: { code?: unknown; cause?: unknown }): string | undefined {
  if (code !== 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED') return undefined;
  return String((cause as { body?: { issuer?: unknown } }).body?.issuer).slice(0, 200);
}

const gone = (why: string): ToolError =>
  new ToolError('UNAUTHENTICATED', { message: `The OpenID provider no longer confirms the user: ${why}` });

/** With a shared secret, everyone who can verify can sign. */
const isAsymmetric = (algorithm: string): boolean => /^(RS|PS|ES|Ed|ML-DSA)/.test(algorithm);

/**
 * The claims of the ID token, and what userinfo has in addition. `email_verified` is about the address next to it: without that address, or
 * next to another one, it makes the address unverified.
 */
function mergeClaims(idToken: JsonObject, userInfo: JsonObject): JsonObject {
  const claims = { ...userInfo, ...idToken };
  const isSplit = [idToken, userInfo].some(
    ({ email, email_verified: verified }) => verified !== undefined && email !== claims['email'],
  );
  return isSplit ? { ...claims, email_verified: false } : claims;
}

/** The provider's own words come from its response; texts of a response are shown escaped and cut. */
function refused(error: unknown): ToolError {
  if (error instanceof openid.AuthorizationResponseError || error instanceof openid.ResponseBodyError) {
    const why = error.error_description ?? error.error;
    return new ToolError('UNAUTHENTICATED', {
      message: `The provider refused the sign-in: ${why.slice(0, 200)}`,
      cause: error,
    });
  }
  const { code } = error as { code?: unknown };
  if (error instanceof openid.ClientError && code === 'OAUTH_TIMEOUT')
    return new ToolError('SERVICE_UNAVAILABLE', {
      message: 'The OpenID provider does not answer; retry later',
      cause: error,
    });
  return new ToolError('UNAUTHENTICATED', {
    message: 'The response of the provider does not belong to this sign-in, or is invalid. Sign in again.',
    cause: error,
  });
}
