/** Retries in reserve, so that a quiet target may still be retried. */
const RESERVE = 10;
/** Calls that pay for one retry: retries stay at a tenth of the calls. */
const CALLS_PER_RETRY = 10;

/**
 * Keeps retries at 10 % of the calls to one target. Without it a failing upstream gets a multiple of its normal load
 * exactly when it can bear least.
 */
export class RetryBudget {
  /** In calls, so that it stays an integer. */
  #balance = RESERVE * CALLS_PER_RETRY;

  /** Counts one call. */
  deposit(): void {
    this.#balance = Math.min(RESERVE * CALLS_PER_RETRY, this.#balance + 1);
  }

  /** Takes one retry if there is one left. */
  withdraw(): boolean {
    if (this.#balance < CALLS_PER_RETRY) return false;
    this.#balance -= CALLS_PER_RETRY;
    return true;
  }
}
