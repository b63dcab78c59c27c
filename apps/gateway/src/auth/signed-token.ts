import { createHmac, timingSafeEqual } from 'node:crypto';
import type { EpochMs, JsonObject } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';

/** What a token is for. Part of the MAC: a token of one purpose is worthless for another. */
export type TokenPurpose = 'delegation' | 'request_state';

/** Gateways verify each other's tokens by their own clocks; NTP keeps them well within this. */
const CLOCK_SKEW_MS = 2_000;

/** Time until every gateway has read a changed secret file (Kubernetes brings it to a pod within about a minute). */
const SPREAD_MS = 120_000;
/** Longest life of a token unless told: `GATEWAY_ASYNC_TIMEOUT_MS` bounds it. */
const LONGEST_LIFE_MS = 900_000;
const LEAST_LENGTH = 32;

interface SigningKey {
  secret: string;
  signsFrom: EpochMs;
  verifiesUntil: EpochMs;
}

/**
 * Signs small facts that come back through others' hands: `<base64url of {e, p}>.<base64url of HMAC-SHA-256>`, keyed by
 * `GATEWAY_TOKEN_SECRET`. Readable by whoever holds it, so no secrets inside.
 */
export class SignedTokens {
  /** Oldest first. */
  private keys: SigningKey[];

  constructor(
    secret: string,
    private readonly clock: Clock,
    /** No token is signed for longer than this. */
    private readonly longestLifeMs = LONGEST_LIFE_MS,
  ) {
    this.keys = [{ secret: checked(secret), signsFrom: 0, verifiesUntil: Infinity }];
  }

  /**
   * Takes over a changed secret without a token refused: it verifies at once, signs once every gateway knows it, and the old
   * one verifies until the last token it signed has expired. @throws RangeError when it is too short
   */
  rotate(secret: string): void {
    const now = this.clock.now();
    const signsFrom = now + SPREAD_MS;
    const endsAt = signsFrom + this.longestLifeMs + CLOCK_SKEW_MS;
    const known = this.keys.filter(({ verifiesUntil }) => verifiesUntil > now);
    this.keys = [
      ...known.map((key) => ({ ...key, verifiesUntil: Math.min(key.verifiesUntil, endsAt) })),
      { secret: checked(secret), signsFrom, verifiesUntil: Infinity },
    ];
  }

  /** A token that `open` accepts until `expiresAt`. */
  sign(purpose: TokenPurpose, payload: JsonObject, expiresAt: EpochMs): string {
    const now = this.clock.now();
    const { secret } = this.keys.findLast(({ signsFrom }) => signsFrom <= now)!;
    const body = Buffer.from(JSON.stringify({ e: expiresAt, p: payload })).toString('base64url');
    return `${body}.${mac(secret, purpose, body).toString('base64url')}`;
  }

  /** The payload, or null when the token is forged, altered, expired or made for another purpose. */
  open(purpose: TokenPurpose, token: string): JsonObject | null {
    const dot = token.indexOf('.');
    if (dot < 0) return null;
    const body = token.slice(0, dot);
    const given = Buffer.from(token.slice(dot + 1), 'base64url');
    // re-encoding closes base64url's spare bits: one token has one spelling
    if (given.length !== 32 || given.toString('base64url') !== token.slice(dot + 1)) return null;
    const now = this.clock.now();
    const isOurs = ({ secret, verifiesUntil }: SigningKey): boolean =>
      verifiesUntil > now && timingSafeEqual(mac(secret, purpose, body), given);
    if (!this.keys.some(isOurs)) return null;
    const { e, p } = JSON.parse(Buffer.from(body, 'base64url').toString()) as { e: EpochMs; p: JsonObject };
    return now <= e + CLOCK_SKEW_MS ? p : null;
  }
}

function checked(secret: string): string {
  if (secret.length >= LEAST_LENGTH) return secret;
  throw new RangeError(`GATEWAY_TOKEN_SECRET needs at least ${LEAST_LENGTH} characters`);
}

function mac(secret: string, purpose: TokenPurpose, body: string): Buffer {
  return createHmac('sha256', secret).update(`toolfleet.${purpose}.1.${body}`).digest();
}
