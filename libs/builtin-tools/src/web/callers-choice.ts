import { isToolError, ToolError, type ErrorCode } from '@toolfleet/contracts';

/** What a page that is away, slow or broken looks like. */
const FAULTS_OF_A_PAGE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'NETWORK_ERROR',
  'UPSTREAM_ERROR',
  'ATTEMPT_TIMED_OUT',
]);

/**
 * Marks faults of an address the caller chose (`details.target: "chosen_by_caller"`): they say nothing about the tool, and
 * the gateway does not count them for its breaker. Else whoever asks for dead hosts would close the tool for everyone.
 */
export async function atCallersChoice<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isToolError(error) || !FAULTS_OF_A_PAGE.has(error.code)) throw error;
    throw new ToolError(error.code, {
      message: error.message,
      details: { ...error.details, target: 'chosen_by_caller' },
      cause: error.cause,
      ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
    });
  }
}
