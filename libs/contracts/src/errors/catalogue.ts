/** Class of a failure as models and metrics see it. */
export type ErrorClass = 'timeout' | 'invalid_arguments' | 'tool_not_found' | 'network_error' | 'internal_error';

/**
 * What a failed call costs: `nothing` where the fleet refused it or could not deliver it; its `cost` (what the tool reports, else
 * its price) where the executor worked on it; the whole `reservation` where it is unknown.
 */
type FailureCharge = 'nothing' | 'cost' | 'reservation';

/** Everything about one error code. */
export interface ErrorEntry {
  /** `request`: refused before the tool ran, with the HTTP status. `execution`: the tool ran and failed, reported in-band with 200. */
  origin: 'request' | 'execution';
  http: number;
  class: ErrorClass;
  retryable: boolean;
  /** What a call that failed with this code costs. */
  charge: FailureCharge;
  /** What the caller (a person or a model) can do. */
  hint: string;
}

const request = (http: number, errorClass: ErrorClass, retryable: boolean, hint: string) =>
  ({ origin: 'request', http, class: errorClass, retryable, charge: 'nothing', hint }) as const;
const execution = (errorClass: ErrorClass, retryable: boolean, charge: FailureCharge, hint: string) =>
  ({ origin: 'execution', http: 200, class: errorClass, retryable, charge, hint }) as const;

/**
 * Every error code with its status, class, retryability, charge and hint. No other place decides any of these; a test compares
 * `docs/errors.md` with it.
 */
export const CATALOGUE = {
  REQUEST_INVALID: request(400, 'invalid_arguments', false, 'Correct the named fields of the request.'),
  ARGUMENTS_INVALID: request(400, 'invalid_arguments', false, 'Check the format and types of the named arguments.'),
  SPEC_INVALID: request(422, 'invalid_arguments', false, 'Correct the OpenAPI document at the named place.'),
  SOURCE_REFUSED: request(
    422,
    'invalid_arguments',
    false,
    'Correct the registration as described in the message, or retry when the server is reachable.',
  ),
  UNAUTHENTICATED: request(401, 'internal_error', false, 'Send a valid key as Authorization: Bearer or X-API-Key.'),
  BUDGET_EXCEEDED: request(402, 'internal_error', false, 'Ask for a higher limit.'),
  TOKEN_LIMIT_EXCEEDED: request(402, 'internal_error', false, 'Ask for a higher token limit.'),
  PERMISSION_DENIED: request(403, 'internal_error', false, 'Use a credential that may call this tool.'),
  TOOL_DANGEROUS: request(403, 'internal_error', false, 'Dangerous tools are reserved for internal callers.'),
  TOOL_QUARANTINED: request(403, 'internal_error', false, 'An administrator must approve the changed tool.'),
  POLICY_DENIED: request(403, 'internal_error', false, 'A policy rule forbids this call with these arguments.'),
  APPROVAL_REQUIRED: request(
    403,
    'internal_error',
    false,
    'A person must approve this call: make it over MCP with a client that supports elicitation, and answer its question.',
  ),
  APPROVAL_DECLINED: request(
    403,
    'internal_error',
    false,
    'A person declined this call; ask that person what to do instead.',
  ),
  TOOL_NOT_FOUND: request(404, 'tool_not_found', false, 'Check the name against the tool list.'),
  NOT_FOUND: request(404, 'tool_not_found', false, 'Check the id or path.'),
  METHOD_NOT_ALLOWED: request(405, 'invalid_arguments', false, 'Use a method listed in the Allow header.'),
  CALL_IN_PROGRESS: request(
    409,
    'internal_error',
    true,
    'The first call with this key is still running; retry later or use Prefer: wait.',
  ),
  TOOL_NAME_CONFLICT: request(409, 'invalid_arguments', false, 'Choose another name or set name_prefix.'),
  PAYLOAD_TOO_LARGE: request(413, 'invalid_arguments', false, 'Send less data.'),
  IDEMPOTENCY_MISMATCH: request(422, 'invalid_arguments', false, 'Use a new idempotency key for other arguments.'),
  RATE_LIMITED: request(429, 'internal_error', true, 'Wait, then retry the same call.'),
  PROGRAM_LIMIT: request(
    429,
    'internal_error',
    false,
    'Split the work into several programs, or raise max_calls or max_cost_usd.',
  ),
  RESULT_QUOTA_EXCEEDED: request(
    429,
    'internal_error',
    true,
    'Call synchronously and without an idempotency key, wait until stored results expire, or ask for a larger quota.',
  ),
  INTERNAL: request(500, 'internal_error', true, 'Internal error; report the call_id.'),
  EXECUTOR_UNAVAILABLE: request(
    502,
    'network_error',
    true,
    'The service that runs this tool is unavailable; retry later.',
  ),
  BREAKER_OPEN: request(503, 'network_error', true, 'The tool is currently failing; retry later.'),
  QUEUE_FULL: request(503, 'internal_error', true, 'The fleet is busy; retry later.'),
  BUDGET_UNAVAILABLE: request(503, 'internal_error', true, 'The budget service is unavailable; retry later.'),
  SERVICE_UNAVAILABLE: request(503, 'internal_error', true, 'A service of the fleet is unavailable; retry later.'),
  DEADLINE_EXCEEDED: request(504, 'timeout', true, 'Give the call more time, or retry later.'),

  ATTEMPT_TIMED_OUT: execution('timeout', true, 'cost', 'Retry later or simplify the request.'),
  CANCELLED: execution('timeout', true, 'cost', 'Retry the call if it is still needed.'),
  OUTCOME_UNKNOWN: execution(
    'internal_error',
    false,
    'reservation',
    'Check whether the call took effect before you retry it.',
  ),
  UPSTREAM_ERROR: execution(
    'network_error',
    false,
    'cost',
    'Read the upstream message; correct the arguments or retry later.',
  ),
  NETWORK_ERROR: execution('network_error', true, 'nothing', 'The upstream is unreachable; retry later.'),
  EGRESS_REFUSED: execution('network_error', false, 'nothing', 'The address is not on the allowlist of the fleet.'),
  RESULT_TOO_LARGE: execution('internal_error', false, 'cost', 'Narrow the request so that the result is smaller.'),
  EXECUTION_FAILED: execution('internal_error', false, 'cost', 'Read the message and correct the request.'),
  SANDBOX_ERROR: execution('internal_error', false, 'cost', 'Read the Python error and correct the code.'),
  MEMORY_EXCEEDED: execution('internal_error', false, 'cost', 'Use less memory.'),
  OUTPUT_LIMIT: execution('internal_error', false, 'cost', 'Print or return less.'),
  SANDBOX_POLICY: execution(
    'internal_error',
    false,
    'nothing',
    'Use only the allowed modules and builtins of this strictness.',
  ),
  SANDBOX_CRASHED: execution(
    'internal_error',
    false,
    'cost',
    'The interpreter terminated abnormally; simplify the code.',
  ),
  WORKER_LOST: execution(
    'internal_error',
    false,
    'cost',
    'The worker died while running this; do not retry it unchanged.',
  ),
  AUTH_NOT_CONFIGURED: execution(
    'internal_error',
    false,
    'nothing',
    'The operator must configure credentials for this upstream.',
  ),
  TOOL_ERROR: execution('internal_error', false, 'cost', 'Read the message and correct the request.'),
} as const satisfies Record<string, ErrorEntry>;

/** A code of the catalogue. */
export type ErrorCode = keyof typeof CATALOGUE;

/** Narrows a code that another process sent. */
export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(CATALOGUE, value);
}
