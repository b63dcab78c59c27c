import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { ADMIN_ROLE, AUDITOR_ROLE, LOCAL_TENANT, OPERATOR_ROLE, type Principal } from '@toolfleet/contracts';
import type { ApiKeys } from './api-keys.js';
import { KEY_PREFIX } from './api-key-format.js';
import type { CredentialStatus } from './credential-status.js';
import { type Credential, unauthenticated } from './credential.js';
import { DELEGATION_PREFIX, openDelegation, type SignedTokens } from './signed-tokens.js';
import type { JwtVerifier } from './jwt.js';
import { OPERATOR, withOwnRights, type OwnRoles } from './roles.js';
import type { Verified, VerifiedCache } from './verified-cache.js';
import { isLoopbackRequest } from './loopback.js';
import { readRequestCredential } from './session-cookie.js';
import { CLIENT_TOKEN_PATTERN, type UserSessions } from './user-sessions.js';

/** Verifiers of credentials. A kind of credential without a verifier is refused. */
export interface AuthenticateDeps {
  keys?: ApiKeys;
  jwt?: JwtVerifier;
  /** Verifies session cookies, and tokens of OAuth clients. */
  sessions?: Pick<UserSessions, 'verify' | 'verifyClient'>;
  /** Verifies delegation tokens. */
  tokens?: SignedTokens;
  /** Whether the key behind a delegation token is still live. */
  status?: Pick<CredentialStatus, 'findRefusal'>;
  cache: VerifiedCache;
  /** Roles of the configuration file. */
  roles?: OwnRoles;
  /** `TOOLFLEET_DEV_API_KEY`: at least 16 characters; only together with `local`. */
  devKey?: string;
  /** `GATEWAY_ADMIN_KEY`: at least 32 characters; for the operator who creates the first API keys of a new fleet. */
  adminKey?: string;
  /** Local mode: the fleet runs on one machine, on loopback. */
  local: boolean;
  /** The principal of requests without a credential (`GATEWAY_SKIP_AUTH` in development); absent: they are refused. */
  anonymous?: Principal;
}

/** Verifies a credential. @throws ToolError UNAUTHENTICATED, or SERVICE_UNAVAILABLE when its verifier is unavailable */
export type Authenticate = (credential: Credential | undefined) => Promise<Principal>;

/** The developer of a fleet on one machine, who administers and operates it and reads its calls; without a credential. */
export const LOCAL_OPERATOR: Principal = {
  tenantId: LOCAL_TENANT,
  userId: 'dev',
  roles: [ADMIN_ROLE, AUDITOR_ROLE, OPERATOR_ROLE],
  tools: ['*'],
  projects: ['*'],
  via: 'local',
  root: { tenantId: LOCAL_TENANT, userId: 'dev', kind: 'operator' },
};

const MIN_DEV_KEY_LENGTH = 16;
const MIN_ADMIN_KEY_LENGTH = 32;

/**
 * Builds the function by which every entry point identifies its callers.
 * @throws RangeError when a development key is set outside local mode, or a configured key is too short
 */
export function makeAuthenticate(deps: AuthenticateDeps): Authenticate {
  if (deps.devKey !== undefined && !deps.local) throw new RangeError('TOOLFLEET_DEV_API_KEY is for local mode only');
  const isDevKey = keyCheck('TOOLFLEET_DEV_API_KEY', deps.devKey, MIN_DEV_KEY_LENGTH);
  const isAdminKey = keyCheck('GATEWAY_ADMIN_KEY', deps.adminKey, MIN_ADMIN_KEY_LENGTH);
  return async (credential) => {
    if (!credential) {
      if (deps.anonymous) return deps.anonymous;
      throw unauthenticated('none');
    }
    const { kind, token } = credential;
    if (kind !== 'session' && token.startsWith(DELEGATION_PREFIX)) {
      // Not cached: each token is made for one call, and verifying it takes one HMAC.
      const principal = kind === 'bearer' && deps.tokens ? openDelegation(deps.tokens, token) : null;
      if (!principal || (await deps.status?.findRefusal(principal))) throw unauthenticated();
      return principal;
    }
    // The key includes the kind: a token verified in one header must not be accepted in the other.
    return deps.cache.verify(`${kind} ${token}`, async () => {
      const { principal, ...rest } = await prove(kind, token);
      return { principal: withOwnRights(principal, deps.roles ?? {}), ...rest };
    });
  };

  async function prove(kind: Credential['kind'], token: string): Promise<Verified> {
    const { keys, jwt, sessions } = deps;
    if (kind === 'session') {
      if (!sessions) throw unauthenticated();
      return sessions.verify(token);
    }
    if (isDevKey(token)) return { principal: { ...LOCAL_OPERATOR, authenticated: true } };
    if (isAdminKey(token)) return { principal: OPERATOR };
    if (token.startsWith(KEY_PREFIX) && keys) return keys.verify(token);
    if (kind === 'bearer' && jwt && token.split('.', 4).length === 3) return jwt.verify(token);
    if (kind === 'bearer' && sessions && CLIENT_TOKEN_PATTERN.test(token)) return sessions.verifyClient(token);
    throw unauthenticated();
  }
}

/** Refuses clients that a user connected to `/mcp`, on entry points that their tokens are not for (RFC 8707 section 2). */
export function refuseClients(authenticate: Authenticate): Authenticate {
  return async (credential) => {
    const principal = await authenticate(credential);
    if (principal.via === 'oauth') throw unauthenticated('other_resource');
    return principal;
  };
}

/** Whether a token is the key of a setting; never if that is not set. @throws RangeError for a key that is too short */
function keyCheck(setting: string, key: string | undefined, leastLength: number): (token: string) => boolean {
  if (key === undefined) return () => false;
  if (key.length < leastLength) throw new RangeError(`${setting} needs at least ${leastLength} characters`);
  return sameAs(key);
}

/** Compares salted hashes, so that the time taken reveals neither length nor content. */
export function sameAs(secret: string): (token: string) => boolean {
  const salt = randomBytes(32).toString('base64');
  const digest = (text: string): Buffer => hash('sha256', salt + text, 'buffer');
  const expected = digest(secret);
  return (token) => timingSafeEqual(digest(token), expected);
}

/**
 * Identifies the caller of an HTTP request by its headers. Requests without a credential (`GATEWAY_SKIP_AUTH`) must name a
 * loopback host; otherwise any web page could call a developer's fleet.
 * @param rawHeaders Node's flat list of names and values
 * @param read `readRawCredential` for entry points without session cookies
 * @throws ToolError UNAUTHENTICATED, or SERVICE_UNAVAILABLE when the verifier is unavailable
 */
export async function authenticateRequest(
  authenticate: Authenticate,
  rawHeaders: readonly string[],
  read = readRequestCredential,
): Promise<Principal> {
  const credential = read(rawHeaders);
  if (credential === undefined && !isLoopbackRequest(rawHeaders)) throw unauthenticated('none');
  return authenticate(credential);
}
