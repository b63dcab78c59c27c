import type { Milliseconds } from '@toolfleet/contracts';
import { SingleFlight, type Clock } from '@toolfleet/resilience';
import { registerSecret } from '@toolfleet/telemetry';
import { DEFAULT_LIFE_S, type Tokens } from './token-answer.js';

/** A token is renewed this long before it ends; a short one at half of its life. */
const EARLY_MS: Milliseconds = 60_000;

/**
 * The access token of one credential of the fleet, shared by all calls: one request at a time, and a new token before the old one ends or
 * after an upstream refused it. It also keeps the refresh token that replaced the configured one (OAuth 2.1 section 4.3.1).
 */
export class HeldToken {
  #held: { tokens: Tokens; renewAt: Milliseconds; endsAt: Milliseconds } | undefined;
  #rotated: string | undefined;
  readonly #flight = new SingleFlight<Tokens>();

  /** @param request gets the refresh token of the last answer, if it had one */
  constructor(
    private readonly clock: Clock,
    private readonly request: (rotated: string | undefined, signal: AbortSignal) => Promise<Tokens>,
  ) {}

  /** The token that is sent now, however old. */
  get current(): Tokens | undefined {
    return this.#held?.tokens;
  }

  /** True while `get` sends no request. */
  get isFresh(): boolean {
    return this.#held !== undefined && this.#held.renewAt > this.clock.monotonic();
  }

  /** @throws the error of the request, when there is no other token that is still valid */
  async get(signal: AbortSignal = new AbortController().signal): Promise<Tokens> {
    const held = this.#held;
    if (held && this.isFresh) return held.tokens;
    try {
      return (await this.#flight.join('', signal, (flight) => this.#renew(flight))).value;
    } catch (error) {
      if (held && held === this.#held && held.endsAt > this.clock.monotonic()) return held.tokens;
      throw error;
    }
  }

  /**
   * Forgets a token that an upstream refused.
   * @param refused absent: whichever is held
   * @returns false when another call has renewed it already
   */
  forget(refused?: string): boolean {
    if (this.#held && refused !== undefined && refused !== this.#held.tokens.access_token) return false;
    this.#held = undefined;
    return true;
  }

  async #renew(signal: AbortSignal): Promise<Tokens> {
    const tokens = await this.request(this.#rotated, signal);
    registerSecret(tokens.access_token);
    if (tokens.refresh_token !== undefined) registerSecret(tokens.refresh_token);
    this.#rotated = tokens.refresh_token ?? this.#rotated;
    const lifeMs = (tokens.expires_in ?? DEFAULT_LIFE_S) * 1_000;
    const now = this.clock.monotonic();
    this.#held = { tokens, renewAt: now + Math.max(lifeMs - EARLY_MS, lifeMs / 2), endsAt: now + lifeMs };
    return tokens;
  }
}
