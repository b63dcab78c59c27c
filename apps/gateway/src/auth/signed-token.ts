import { createHmac, timingSafeEqual } from 'node:crypto';
import type { EpochMs, JsonObject } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';

/** What a token is for. Part of the MAC: a token of one purpose is worthless for another. */
export type TokenPurpose = 'delegation' | 'request_state';

/** Gateways verify each other's tokens by their own clocks; NTP keeps them well within this. */
const CLOCK_SKEW_MS = 2_000;

/**
 * Signs small facts that come back through others' hands: `<base64url of {e, p}>.<base64url of HMAC-SHA-256>`, keyed by
 * `GATEWAY_TOKEN_SECRET`. Readable by whoever holds it, so no secrets inside. The first secret signs, all verify (rotation).
 */
export class SignedTokens {
  private readonly secrets: readonly string[];

  constructor(
    secrets: string | readonly string[],
    private readonly clock: Clock,
  ) {
    this.secrets = typeof secrets === 'string' ? [secrets] : secrets;
    if (this.secrets.length === 0 || this.secrets.some((secret) => secret.length < 32)) {
      throw new RangeError('GATEWAY_TOKEN_SECRET needs at least 32 characters');
    }
  }

  /** A token that `open` accepts until `expiresAt`. */
  sign(purpose: TokenPurpose, payload: JsonObject, expiresAt: EpochMs): string {
    const body = Buffer.from(JSON.stringify({ e: expiresAt, p: payload })).toString('base64url');
    return `${body}.${mac(this.secrets[0]!, purpose, body).toString('base64url')}`;
  }

  /** The payload, or null when the token is forged, altered, expired or made for another purpose. */
  open(purpose: TokenPurpose, token: string): JsonObject | null {
    const dot = token.indexOf('.');
    if (dot < 0) return null;
    const body = token.slice(0, dot);
    const given = Buffer.from(token.slice(dot + 1), 'base64url');
    // re-encoding closes base64url's spare bits: one token has one spelling
    if (given.length !== 32 || given.toString('base64url') !== token.slice(dot + 1)) return null;
    if (!this.secrets.some((secret) => timingSafeEqual(mac(secret, purpose, body), given))) return null;
    const { e, p } = JSON.parse(Buffer.from(body, 'base64url').toString()) as { e: EpochMs; p: JsonObject };
    return this.clock.now() <= e + CLOCK_SKEW_MS ? p : null;
  }
}

function mac(secret: string, purpose: TokenPurpose, body: string): Buffer {
  return createHmac('sha256', secret).update(`toolfleet.${purpose}.1.${body}`).digest();
}
