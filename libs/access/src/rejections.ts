import { isToolError } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { Logger, Metrics } from '@toolfleet/telemetry';
import type { Authenticate } from './authenticate.js';
import { TokenRefused } from './credential.js';

/** Why a request was rejected before it became a call. */
const REASONS = ['unauthenticated', 'auth_unavailable', 'key_limit', 'address_limit', 'connection_limit'] as const;
type RejectionReason = (typeof REASONS)[number];

/** One log line in this interval, whatever the number of rejections: callers choose how many there are. */
const LOG_EVERY_MS = 10_000;
/** Different reasons of refused tokens in one line. */
const MAX_REFUSALS = 5;

/**
 * Counts requests that no call is made of, on every entry point, as `toolfleet_requests_rejected_total` and as a log line with the
 * numbers of ten seconds and the reasons why tokens of the issuer were refused. They have no line in the audit log: anyone can send them.
 */
export class Rejections {
  readonly #counts = new Map<RejectionReason, number>();
  readonly #refusals = new Set<string>();

  constructor(
    private readonly metrics: Pick<Metrics, 'requestsRejected'>,
    private readonly logger: Pick<Logger, 'warn'>,
    private readonly clock: Clock,
  ) {
    // rate() sees no increase in a series that starts above 0.
    for (const reason of REASONS) metrics.requestsRejected.inc({ reason }, 0);
  }

  readonly count = (reason: RejectionReason): void => {
    this.metrics.requestsRejected.inc({ reason });
    if (this.#counts.size === 0) this.clock.after(LOG_EVERY_MS, () => this.#log());
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + 1);
  };

  /** `authenticate` with its refusals counted. */
  counted(authenticate: Authenticate): Authenticate {
    return async (credential) => {
      try {
        return await authenticate(credential);
      } catch (error) {
        const { cause } = error as Error;
        if (cause instanceof TokenRefused && this.#refusals.size < MAX_REFUSALS) this.#refusals.add(cause.message);
        this.count(isToolError(error) && error.code === 'UNAUTHENTICATED' ? 'unauthenticated' : 'auth_unavailable');
        throw error;
      }
    };
  }

  #log(): void {
    const rejected = Object.fromEntries(this.#counts);
    this.#counts.clear();
    const tokens = this.#refusals.size > 0 ? [...this.#refusals] : undefined;
    this.#refusals.clear();
    this.logger.warn({ rejected, tokens, seconds: LOG_EVERY_MS / 1_000 }, 'requests were rejected');
  }
}
