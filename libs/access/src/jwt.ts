import { decodeProtectedHeader, jwtVerify, type JWTPayload } from 'jose';
import {
  type EpochMs,
  isReservedTenant,
  isReservedUser,
  PRESENTED_TOKEN,
  type Principal,
  TENANT_ID_PATTERN,
  ToolError,
} from '@toolfleet/contracts';
import { isPlainId } from '@toolfleet/contracts/text';
import type { Clock } from '@toolfleet/resilience';
import { type JwksKeys, KeysUnavailable } from './jwks.js';
import { effectiveRoles } from './roles.js';
import { TokenRefused, unauthenticated } from './credential.js';

/** Which tokens are accepted. Nothing of this is taken from the token itself. */
interface JwtSettings {
  issuer: string;
  audience: string;
  /** Accepted signature algorithms, a subset of `JWT_ALGORITHMS`. */
  algorithms: readonly string[];
  /** Claim names; nested ones by dots (`realm_access.roles`). The user is `sub`: other claims may be free for users to choose. */
  claims: { tenant: string; roles?: string; tools?: string; tier?: string };
  /** Longest life of a token, from `iat` to `exp`. */
  maxLifetimeSeconds: number;
  /** Accepted `typ` of the header, `none` for tokens without one; default `at+jwt` (RFC 9068). */
  tokenTypes?: readonly string[];
}

/** The principal of a token, and its expiry with tolerance. */
interface VerifiedJwt {
  principal: Principal;
  expiresAt: EpochMs;
}

/**
 * Accepted signature algorithms, all asymmetric: with a shared secret every verifier could also sign, and tokens signed by
 * HS256 with the public key as secret would pass.
 */
export const JWT_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const;
const ASYMMETRIC: ReadonlySet<string> = new Set(JWT_ALGORITHMS);
/** Type of access tokens (RFC 9068); an ID token sent by mistake is refused. */
const TOKEN_TYPE = 'at+jwt';
const TOLERANCE_S = 30;
/** Stands for the directory in the issuer of Entra's multi-tenant metadata; the claim `tid` has it. */
const DIRECTORY = '{tenantid}';
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Claims that only access tokens have: RFC 9068 and Keycloak, Entra (v1, v2), Okta, Auth0. */
const OF_ACCESS = ['scope', 'client_id', 'scp', 'appid', 'appidacr', 'azpacr', 'cid', 'gty'];
/** Claims that only ID tokens have (OpenID Connect Core 1.0 sections 2 and 3.3.2.11). */
const OF_ID_TOKEN = ['nonce', 'at_hash', 'c_hash'];

/** Verifies JWT access tokens of one issuer. */
export class JwtVerifier {
  constructor(
    private readonly settings: JwtSettings,
    private readonly keys: JwksKeys,
    private readonly clock: Clock,
    /** Called with what the operator has to correct, by setting. */
    private readonly onFault: (setting: string, message: string) => void = () => undefined,
  ) {
    const bad = settings.algorithms.filter((algorithm) => !ASYMMETRIC.has(algorithm));
    if (settings.algorithms.length === 0 || bad.length > 0)
      throw new RangeError(`JWT algorithms: ${bad.join(', ') || 'none given'}`);
    if (!settings.issuer || !settings.audience || !settings.claims.tenant)
      throw new RangeError('JWT needs issuer, audience and tenant claim');
    // Every directory chooses the other claims of its users.
    if (settings.issuer.includes(DIRECTORY) && settings.claims.tenant !== 'tid')
      throw new RangeError(`JWT_ISSUER with ${DIRECTORY} needs JWT_TENANT_CLAIM=tid`);
  }

  /**
   * Verifies a token.
   * @throws ToolError UNAUTHENTICATED for any fault of the token, caused by a TokenRefused; SERVICE_UNAVAILABLE if no key set has been read yet
   */
  async verify(token: string): Promise<VerifiedJwt> {
    try {
      // Without `kid` the verifier would have to try all keys of the issuer.
      if (typeof decodeProtectedHeader(token).kid !== 'string') throw new TokenRefused('its header has no kid');
      const { payload, protectedHeader } = await jwtVerify(token, this.keys.find, {
        algorithms: [...this.settings.algorithms],
        clockTolerance: TOLERANCE_S,
        currentDate: new Date(this.clock.now()),
        requiredClaims: ['exp', 'iat'],
        // Refuses tokens that were issued longer ago than this, or in the future.
        maxTokenAge: this.settings.maxLifetimeSeconds,
      });
      const fault = this.#faultOf(protectedHeader.typ, payload);
      if (fault !== undefined) throw new TokenRefused(fault);
      const expiresAt = (payload.exp! + TOLERANCE_S) * 1_000;
      return { principal: { ...this.toPrincipal(payload), expiresAt, [PRESENTED_TOKEN]: token }, expiresAt };
    } catch (error) {
      if (error instanceof KeysUnavailable) {
        throw new ToolError('SERVICE_UNAVAILABLE', {
          message: 'Tokens cannot be verified at the moment; retry later.',
          cause: error,
        });
      }
      const reason = (error as Error).message.slice(0, 300);
      throw unauthenticated('invalid', error instanceof TokenRefused ? error : new TokenRefused(reason));
    }
  }

  /** What is wrong with a token that a key of the issuer signed, beyond its times. */
  #faultOf(typ: string | undefined, payload: JWTPayload): string | undefined {
    const { issuer, audience, maxLifetimeSeconds, tokenTypes = [TOKEN_TYPE] } = this.settings;
    const type = typ?.toLowerCase().replace(/^application\//, '') ?? 'none';
    if (!tokenTypes.some((accepted) => accepted.toLowerCase() === type))
      return `its typ is ${shown(typ)}, and ${tokenTypes.join(', ')} is accepted; see token_types of the configuration file`;
    const { iss, tid, aud, token_use: use } = payload;
    const expected = issuer.replace(DIRECTORY, typeof tid === 'string' && UUID.test(tid) ? tid : DIRECTORY);
    if (iss !== expected) {
      const why = `is ${shown(expected)}, and tokens of the issuer say ${shown(iss)}`;
      if (iss?.replace(/\/$/, '') === expected.replace(/\/$/, '')) this.onFault('JWT_ISSUER', why);
      return `JWT_ISSUER ${why}`;
    }
    // Cognito's access tokens name the client instead of an audience.
    const named = aud ?? (type === 'none' && use === 'access' ? (payload['client_id'] as string) : undefined);
    if (![named].flat().includes(audience))
      return `JWT_AUDIENCE is ${shown(audience)}, and its audience ${shown(named)}`;
    if (payload.exp! - payload.iat! > maxLifetimeSeconds) return `it lives longer than ${maxLifetimeSeconds} s`;
    return type === TOKEN_TYPE ? undefined : notAccess(payload);
  }

  private toPrincipal(payload: JWTPayload): Principal {
    const { claims } = this.settings;
    const tenantId = claimAt(payload, claims.tenant);
    if (typeof tenantId !== 'string' || !TENANT_ID_PATTERN.test(tenantId) || isReservedTenant(tenantId))
      throw new TokenRefused(`its claim ${claims.tenant} cannot be a tenant: ${shown(tenantId)}`);
    // Entra sends no groups of users that are in many, and a reference instead.
    if (claims.roles !== undefined && Object.hasOwn(Object(payload['_claim_names']), claims.roles))
      this.onFault(
        'JWT_ROLES_CLAIM',
        `is ${claims.roles}, and some tokens leave it out because the user is in too many groups`,
      );
    const tier = claims.tier === undefined ? undefined : claimAt(payload, claims.tier);
    const roles = claims.roles === undefined ? [] : toWords(claimAt(payload, claims.roles));
    const tools = claims.tools === undefined ? ['*'] : toWords(claimAt(payload, claims.tools));
    // They become parts of store keys, log lines and ledger rows.
    const names = typeof tier === 'string' ? [...roles, ...tools, tier] : [...roles, ...tools];
    if (!isPlainId(payload.sub) || isReservedUser(payload.sub) || !names.every(isPlainId))
      throw new TokenRefused('its sub, or a role, tool or tier in it, is not a plain name');
    return {
      tenantId,
      userId: payload.sub,
      roles: effectiveRoles(tenantId, roles),
      tools,
      via: 'jwt',
      tier: typeof tier === 'string' ? tier : undefined,
    };
  }
}

/**
 * Tells access tokens from ID tokens and others of the same issuer that have the same type, or none.
 * @returns why it is not an access token
 */
function notAccess(payload: JWTPayload): string | undefined {
  // Of Keycloak, and of Cognito.
  const said = payload['typ'] ?? payload['token_use'];
  if (said === 'Bearer' || said === 'access') return undefined;
  if (said !== undefined) return `it is a token of the kind ${shown(said)}, not an access token`;
  if (OF_ID_TOKEN.some((name) => Object.hasOwn(payload, name))) return 'it is an ID token, not an access token';
  const isAccess = OF_ACCESS.some((name) => Object.hasOwn(payload, name));
  return isAccess ? undefined : `no claim says that it is an access token (${OF_ACCESS.join(', ')})`;
}

const shown = (value: unknown): string => (value === undefined ? 'missing' : JSON.stringify(value).slice(0, 200));

/** Reads a claim by its full name (issuers use URLs as names), else as a dotted path through own keys. */
export function claimAt(payload: JWTPayload, name: string): unknown {
  if (Object.hasOwn(payload, name)) return payload[name];
  let value: unknown = payload;
  for (const key of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** A list is an array or one space-separated string (RFC 9068 section 2.2.3); any other claim is an empty list. */
function toWords(claim: unknown): string[] {
  if (typeof claim === 'string') return claim.split(' ').filter((word) => word.length > 0);
  return Array.isArray(claim) ? claim.filter((word): word is string => typeof word === 'string') : [];
}
