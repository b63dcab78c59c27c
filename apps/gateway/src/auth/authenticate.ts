import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { ADMIN_ROLE, LOCAL_TENANT, OPERATOR_ROLE, type Principal } from '@toolfleet/contracts';
import type { ApiKeys } from './api-keys.js';
import { KEY_PREFIX } from './api-key-format.js';
import type { CredentialStatus } from './credential-status.js';
import { type Credential, unauthenticated, credentialOfRawHeaders } from './credential.js';
import { DELEGATION_PREFIX, openDelegation, type SignedTokens } from './signed-tokens.js';
import type { JwtVerifier } from './jwt.js';
import { OPERATOR } from './roles.js';
import type { Verified, VerifiedCache } from './verified-cache.js';
import { isLoopbackRequest } from './loopback.js';

/** What proves a credential; what is absent is not accepted. */
export interface AuthenticatePorts {
  keys?: ApiKeys;
  jwt?: JwtVerifier;
  /** Verifies delegation tokens. */
  tokens?: SignedTokens;
  /** Whether the key on whose behalf a delegation token acts is still live. */
  status?: Pick<CredentialStatus, 'refusalOf'>;
  cache: VerifiedCache;
  /** `TOOLFLEET_DEV_API_KEY`: at least 16 characters; only together with `local`. */
  devKey?: string;
  /** `GATEWAY_ADMIN_KEY`: at least 32 characters; the operator who makes the first API keys of a new fleet. */
  adminKey?: string;
  /** Local mode: the fleet runs on one machine, on loopback. */
  local: boolean;
  /** Who a request without any credential is (`GATEWAY_SKIP_AUTH` in development); absent means refused. */
  anonymous?: Principal;
}

/** From a credential to a principal. @throws ToolError UNAUTHENTICATED, or SERVICE_UNAVAILABLE when proof is out of reach */
export type Authenticate = (credential: Credential | undefined) => Promise<Principal>;

/** The developer of a fleet on one machine, who administers and operates it. */
export const LOCAL_OPERATOR: Principal = {
  tenantId: LOCAL_TENANT,
  userId: 'dev',
  roles: [ADMIN_ROLE, OPERATOR_ROLE],
  tools: ['*'],
  via: 'local',
};

const MIN_DEV_KEY_LENGTH = 16;
const MIN_ADMIN_KEY_LENGTH = 32;

/** Builds the one function that every door asks who calls. Throws when a development key is set outside local mode. */
export function makeAuthenticate(ports: AuthenticatePorts): Authenticate {
  const isDevKey = devKeyCheck(ports);
  const isAdminKey = adminKeyCheck(ports.adminKey);
  return async (credential) => {
    if (!credential) {
      if (ports.anonymous) return ports.anonymous;
      throw unauthenticated();
    }
    const { kind, token } = credential;
    if (token.startsWith(DELEGATION_PREFIX)) {
      // not remembered: each is made for one call, and its proof is one HMAC anyway
      const principal = kind === 'bearer' && ports.tokens ? openDelegation(ports.tokens, token) : null;
      if (!principal || (await ports.status?.refusalOf(principal))) throw unauthenticated();
      return principal;
    }
    // with the kind, so that a token proven in one header is not taken in the other
    return ports.cache.principalOf(`${kind} ${token}`, () => prove(kind, token));
  };

  async function prove(kind: Credential['kind'], token: string): Promise<Verified> {
    const { keys, jwt } = ports;
    if (isDevKey(token)) return { principal: LOCAL_OPERATOR };
    if (isAdminKey(token)) return { principal: OPERATOR };
    if (token.startsWith(KEY_PREFIX) && keys) return keys.verify(token);
    if (kind === 'bearer' && jwt && token.split('.', 4).length === 3) return jwt.verify(token);
    throw unauthenticated();
  }
}

function devKeyCheck({ devKey, local }: AuthenticatePorts): (token: string) => boolean {
  if (devKey === undefined) return () => false;
  if (!local) throw new RangeError('TOOLFLEET_DEV_API_KEY is for local mode only');
  if (devKey.length < MIN_DEV_KEY_LENGTH) {
    throw new RangeError(`TOOLFLEET_DEV_API_KEY needs at least ${MIN_DEV_KEY_LENGTH} characters`);
  }
  return sameAs(devKey);
}

function adminKeyCheck(adminKey: string | undefined): (token: string) => boolean {
  if (adminKey === undefined) return () => false;
  if (adminKey.length < MIN_ADMIN_KEY_LENGTH) {
    throw new RangeError(`GATEWAY_ADMIN_KEY needs at least ${MIN_ADMIN_KEY_LENGTH} characters`);
  }
  return sameAs(adminKey);
}

/** Compares salted hashes, so that neither length nor content shows in the time it takes. */
function sameAs(secret: string): (token: string) => boolean {
  const salt = randomBytes(32).toString('base64');
  const digest = (text: string): Buffer => hash('sha256', salt + text, 'buffer');
  const expected = digest(secret);
  return (token) => timingSafeEqual(digest(token), expected);
}

/**
 * Who sent an HTTP request; the one way from headers to a principal. Where requests without a credential are accepted
 * (`GATEWAY_SKIP_AUTH`), only those that name a loopback host are: otherwise any web page could call the fleet of a developer.
 * @throws ToolError UNAUTHENTICATED, or SERVICE_UNAVAILABLE when proof is out of reach
 */
export async function callerOfRequest(authenticate: Authenticate, rawHeaders: readonly string[]): Promise<Principal> {
  const credential = credentialOfRawHeaders(rawHeaders);
  if (credential === undefined && !isLoopbackRequest(rawHeaders)) throw unauthenticated();
  return authenticate(credential);
}
