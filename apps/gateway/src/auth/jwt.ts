import { decodeProtectedHeader, jwtVerify, type JWTPayload } from 'jose';
import { type EpochMs, isReservedTenant, type Principal, ToolError } from '@toolfleet/contracts';
import { isPlainId } from '@toolfleet/contracts/text';
import type { Clock } from '@toolfleet/resilience';
import { type JwksKeys, KeysUnavailable } from './jwks.js';
import { rolesOf } from './roles.js';
import { unauthenticated } from './credential.js';

/** Which tokens are accepted; every entry is pinned, nothing is taken from the token itself. */
export interface JwtSettings {
  issuer: string;
  audience: string;
  /** Signature algorithms, asymmetric only. */
  algorithms: readonly string[];
  /** Claim names; nested ones by dots (`realm_access.roles`). */
  claims: { tenant: string; roles?: string; user?: string; tools?: string; tier?: string };
  /** Longest life of a token, from `iat` to `exp`. */
  maxLifetimeSeconds: number;
}

/** Who a token stands for, and until when. */
export interface VerifiedJwt {
  principal: Principal;
  expiresAt: EpochMs;
}

/** A shared secret would let anyone who can verify also sign, and opens the HS256-with-the-public-key confusion. */
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
/** RFC 9068: access tokens say so; an ID token sent by mistake is refused. */
const TOKEN_TYPE = 'at+jwt';
const TOLERANCE_S = 30;
/** As for API keys: a tenant is one token of a NATS subject and of a Redis key. */
const TENANT_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;

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
   * Who a token stands for.
   * @throws ToolError UNAUTHENTICATED for any fault of the token; SERVICE_UNAVAILABLE when no key set was ever read.
   */
  async verify(token: string): Promise<VerifiedJwt> {
    try {
      // a token without `kid` would make the issuer's keys an oracle to try one after another
      if (typeof decodeProtectedHeader(token).kid !== 'string') throw unauthenticated();
      const { payload } = await jwtVerify(token, this.keys.find, {
        issuer: this.settings.issuer,
        audience: this.settings.audience,
        algorithms: [...this.settings.algorithms],
        typ: TOKEN_TYPE,
        clockTolerance: TOLERANCE_S,
        currentDate: new Date(this.clock.now()),
        requiredClaims: ['exp', 'iat'],
        // Refuses tokens that were issued longer ago, or in the future.
        maxTokenAge: this.settings.maxLifetimeSeconds,
      });
      if (payload.exp! - payload.iat! > this.settings.maxLifetimeSeconds) throw unauthenticated();
      const expiresAt = (payload.exp! + TOLERANCE_S) * 1_000;
      return { principal: { ...this.principalOf(payload), expiresAt }, expiresAt };
    } catch (error) {
      if (error instanceof KeysUnavailable) {
        throw new ToolError('SERVICE_UNAVAILABLE', {
          message: 'Tokens cannot be checked at the moment.',
          cause: error,
        });
      }
      throw unauthenticated();
    }
  }

  private principalOf(payload: JWTPayload): Principal {
    const { claims } = this.settings;
    const tenantId = claimAt(payload, claims.tenant);
    const userId = claimAt(payload, claims.user ?? 'sub');
    if (typeof tenantId !== 'string' || !TENANT_PATTERN.test(tenantId)) throw unauthenticated();
    if (isReservedTenant(tenantId)) throw unauthenticated();
    const tier = claims.tier === undefined ? undefined : claimAt(payload, claims.tier);
    const roles = claims.roles === undefined ? [] : wordsOf(claimAt(payload, claims.roles));
    const tools = claims.tools === undefined ? ['*'] : wordsOf(claimAt(payload, claims.tools));
    // All of them become ids: parts of store keys, log lines and ledger rows, which refuse what is not plain.
    const ids = [userId, ...roles, ...tools, ...(typeof tier === 'string' ? [tier] : [])];
    if (!isPlainId(userId) || !ids.every(isPlainId)) throw unauthenticated();
    return {
      tenantId,
      userId,
      roles: rolesOf(tenantId, roles),
      tools,
      via: 'jwt',
      ...(typeof tier === 'string' ? { tier } : {}),
    };
  }
}

/** A claim by its full name first (issuers use URLs as names), then as a dotted path through own keys. */
function claimAt(payload: JWTPayload, name: string): unknown {
  if (Object.hasOwn(payload, name)) return payload[name];
  let value: unknown = payload;
  for (const key of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** Lists come as arrays or as one space-separated string (RFC 9068 2.2.3); anything else grants nothing. */
function wordsOf(claim: unknown): string[] {
  if (typeof claim === 'string') return claim.split(' ').filter((word) => word.length > 0);
  return Array.isArray(claim) ? claim.filter((word): word is string => typeof word === 'string') : [];
}
