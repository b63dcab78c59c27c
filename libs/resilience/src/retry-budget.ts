/** Share of calls that may be repeated (reliability.md section 6). */
const DEPOSIT_PER_CALL = 0.1;
/** Retries in reserve, so that a quiet target may still be retried. */
const RESERVE = 10;

/**
 * Keeps retries at 10 % of the calls to one target: each call pays a tenth in, each retry takes one out. Without it a
 * failing upstream gets a multiple of its normal load exactly when it can bear least.
 */
export class RetryBudget {
  #balance = RESERVE;

  /** Counts one call. */
  deposit(): void {
    this.#balance = Math.min(RESERVE, this.#balance + DEPOSIT_PER_CALL);
  }

  /** Takes one retry if there is one left. */
  withdraw(): boolean {
    if (this.#balance < 1) return false;
    this.#balance -= 1;
    return true;
  }
}
