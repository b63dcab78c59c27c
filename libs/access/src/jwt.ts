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
import { unauthenticated } from './credential.js';

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

/** Verifies JWT access tokens of one issuer. */
export class JwtVerifier {
  constructor(
    private readonly settings: JwtSettings,
    private readonly keys: JwksKeys,
    private readonly clock: Clock,
  ) {
    const bad = settings.algorithms.filter((algorithm) => !ASYMMETRIC.has(algorithm));
    if (settings.algorithms.length === 0 || bad.length > 0)
      throw new RangeError(`JWT algorithms: ${bad.join(', ') || 'none given'}`);
    if (!settings.issuer || !settings.audience || !settings.claims.tenant)
      throw new RangeError('JWT needs issuer, audience and tenant claim');
  }

  /**
   * Verifies a token.
   * @throws ToolError UNAUTHENTICATED for any fault of the token; SERVICE_UNAVAILABLE if no key set has been read yet
   */
  async verify(token: string): Promise<VerifiedJwt> {
    try {
      // Without `kid` the verifier would have to try all keys of the issuer.
      if (typeof decodeProtectedHeader(token).kid !== 'string') throw unauthenticated();
      const { payload } = await jwtVerify(token, this.keys.find, {
        issuer: this.settings.issuer,
        audience: this.settings.audience,
        algorithms: [...this.settings.algorithms],
        typ: TOKEN_TYPE,
        clockTolerance: TOLERANCE_S,
        currentDate: new Date(this.clock.now()),
        requiredClaims: ['exp', 'iat'],
        // Refuses tokens that were issued longer ago than this, or in the future.
        maxTokenAge: this.settings.maxLifetimeSeconds,
      });
      if (payload.exp! - payload.iat! > this.settings.maxLifetimeSeconds) throw unauthenticated();
      const expiresAt = (payload.exp! + TOLERANCE_S) * 1_000;
      return { principal: { ...this.toPrincipal(payload), expiresAt, [PRESENTED_TOKEN]: token }, expiresAt };
    } catch (error) {
      if (error instanceof KeysUnavailable) {
        throw new ToolError('SERVICE_UNAVAILABLE', {
          message: 'Tokens cannot be verified at the moment; retry later.',
          cause: error,
        });
      }
      throw unauthenticated();
    }
  }

  private toPrincipal(payload: JWTPayload): Principal {
    const { claims } = this.settings;
    const tenantId = claimAt(payload, claims.tenant);
    if (typeof tenantId !== 'string' || !TENANT_ID_PATTERN.test(tenantId)) throw unauthenticated();
    if (isReservedTenant(tenantId)) throw unauthenticated();
    const tier = claims.tier === undefined ? undefined : claimAt(payload, claims.tier);
    const roles = claims.roles === undefined ? [] : toWords(claimAt(payload, claims.roles));
    const tools = claims.tools === undefined ? ['*'] : toWords(claimAt(payload, claims.tools));
    // They become parts of store keys, log lines and ledger rows.
    const names = typeof tier === 'string' ? [...roles, ...tools, tier] : [...roles, ...tools];
    if (!isPlainId(payload.sub) || isReservedUser(payload.sub) || !names.every(isPlainId)) throw unauthenticated();
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

/** Reads a claim by its full name (issuers use URLs as names), else as a dotted path through own keys. */
function claimAt(payload: JWTPayload, name: string): unknown {
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
