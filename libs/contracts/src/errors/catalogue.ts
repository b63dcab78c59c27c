/** Class of a failure as models and metrics see it: what to do differs from class to class, and little within one. */
export type ErrorClass =
  | 'timeout'
  | 'invalid_arguments'
  | 'tool_not_found'
  /** The caller may not do this, or not yet. */
  | 'permission_denied'
  /** A limit of rate, money, tokens or storage is used up. */
  | 'limit_exceeded'
  /** The upstream or the executor could not be reached. */
  | 'network_error'
  /** The upstream answered with an error. */
  | 'upstream_error'
  /** The tool or program ran and failed. */
  | 'execution_error'
  /** The fleet failed. */
  | 'internal_error';

/** Everything about one error code. */
export interface ErrorEntry {
  /** `request`: refused before the tool ran, with the HTTP status. `execution`: the tool ran and failed, reported in-band with 200. */
  origin: 'request' | 'execution';
  http: number;
  class: ErrorClass;
  retryable: boolean;
  /**
   * Charge of a call that failed with this code: `nothing` where the fleet refused it or could not deliver it; its `cost` (as
   * reported by the tool, else its price) where the executor worked on it; the whole `reservation` where the cost is unknown.
   */
  charge: 'nothing' | 'cost' | 'reservation';
  /** Advice for the caller (a person or a model). */
  hint: string;
  /** Who failed: the caller, the tool or its upstream, the executor, or another part of the fleet. The last two use up the error budget. */
  blame: 'caller' | 'tool' | 'executor' | 'fleet';
  /** True: the effect may or may not have happened. False: the code is the tool's answer, or nothing ran. */
  leavesOutcomeOpen: boolean;
  /**
   * `by_rule`: the tool's retry rule decides. `redeliver`: the attempt probably never ran, so an idempotent tool gets one more.
   * `never`: the outcome would be the same, or the effect could happen twice.
   */
  retry: 'by_rule' | 'redeliver' | 'never';
  /** Its meaning for the circuit breaker of the tool. `if_retryable`: a failure if the executor marked it as retryable, else an answer of the tool. */
  breaker: 'success' | 'failure' | 'ignored' | 'if_retryable';
  /** The tool could not be reached, so a stale result or stub data may replace the failure. An answer of the tool is never replaced. */
  replaceable: boolean | 'if_retryable';
}

/** The columns that most codes of one origin share. */
type Traits = Pick<
  ErrorEntry,
  'retryable' | 'blame' | 'charge' | 'leavesOutcomeOpen' | 'retry' | 'breaker' | 'replaceable'
>;

const COMMON = {
  retryable: false,
  leavesOutcomeOpen: false,
  retry: 'by_rule',
  breaker: 'success',
  replaceable: false,
} as const;

const request = (
  http: number,
  errorClass: ErrorClass,
  hint: string,
  traits: Partial<Omit<Traits, 'charge'>> = {},
): ErrorEntry => ({
  origin: 'request',
  http,
  class: errorClass,
  hint,
  ...COMMON,
  blame: 'caller',
  charge: 'nothing',
  ...traits,
});

const execution = (errorClass: ErrorClass, hint: string, traits: Partial<Traits> = {}): ErrorEntry => ({
  origin: 'execution',
  http: 200,
  class: errorClass,
  hint,
  ...COMMON,
  blame: 'tool',
  charge: 'cost',
  ...traits,
});

const RETRYABLE = { retryable: true } as const;
const NEVER = { retry: 'never' } as const;
const NEVER_IGNORED = { retry: 'never', breaker: 'ignored' } as const;

/**
 * Every error code with its status, class, retryability, charge and hint, and with its consequences for blame, retry, breaker and
 * substitutes. No other place classifies codes; a test compares `docs/errors.md` with it.
 */
export const CATALOGUE = {
  REQUEST_INVALID: request(400, 'invalid_arguments', 'Correct the named fields of the request.', NEVER),
  ARGUMENTS_INVALID: request(400, 'invalid_arguments', 'Check the format and types of the named arguments.', NEVER),
  SPEC_INVALID: request(422, 'invalid_arguments', 'Correct the OpenAPI document at the named place.'),
  SOURCE_REFUSED: request(
    422,
    'invalid_arguments',
    'Correct the registration as described in the message, or retry when the server is reachable.',
  ),
  UNAUTHENTICATED: request(401, 'permission_denied', 'Send a valid key as Authorization: Bearer or X-API-Key.'),
  BUDGET_EXCEEDED: request(402, 'limit_exceeded', 'Ask for a higher limit.', NEVER),
  TOKEN_LIMIT_EXCEEDED: request(402, 'limit_exceeded', 'Ask for a higher token limit.', NEVER),
  PERMISSION_DENIED: request(403, 'permission_denied', 'Use a credential that has the right or role that is missing.'),
  TOOL_DANGEROUS: request(403, 'permission_denied', 'Dangerous tools are reserved for internal callers.'),
  TOOL_QUARANTINED: request(403, 'permission_denied', 'An administrator must approve the changed tool.'),
  POLICY_DENIED: request(
    403,
    'permission_denied',
    'A policy rule or an interceptor forbids this call with these arguments.',
    NEVER_IGNORED,
  ),
  APPROVAL_REQUIRED: request(
    403,
    'permission_denied',
    'A person must approve this call. If the answer has an approval, make the same call again once it is approved; else send mode async, an idempotency key, or use an MCP client with elicitation.',
    NEVER,
  ),
  APPROVAL_DECLINED: request(
    403,
    'permission_denied',
    'A person declined this call; ask that person what to do instead.',
    NEVER,
  ),
  APPROVAL_EXPIRED: request(
    403,
    'permission_denied',
    'Too few people approved this call in time; make it again to ask them again.',
    NEVER,
  ),
  APPROVAL_INVALIDATED: request(
    403,
    'permission_denied',
    'The tool, the arguments or the policy changed after the approval; make the call again to ask again.',
    NEVER,
  ),
  APPROVAL_DECIDED: request(409, 'invalid_arguments', 'The approval is decided already; look at its state.', NEVER),
  PLAN_OUTDATED: request(
    409,
    'invalid_arguments',
    'The program would have other effects now; nothing of it was run. Look at details.plan, and send its digest if it is right.',
    NEVER,
  ),
  INPUT_REQUIRED: request(
    403,
    'permission_denied',
    'The server of this tool asks a person for input: call it over MCP with a client that declares elicitation, not asynchronously or in a program.',
    NEVER,
  ),
  AUTHORIZATION_REQUIRED: request(
    403,
    'permission_denied',
    'The tool acts with your own account: connect it as the message says, then call again.',
    NEVER_IGNORED,
  ),
  TOOL_NOT_FOUND: request(404, 'tool_not_found', 'Check the name against the tool list.'),
  NOT_FOUND: request(404, 'tool_not_found', 'Check the id or path.'),
  METHOD_NOT_ALLOWED: request(405, 'invalid_arguments', 'Use a method listed in the Allow header.'),
  CALL_IN_PROGRESS: request(
    409,
    'internal_error',
    'The first call with this key is still running; retry later or use Prefer: wait.',
    { ...NEVER_IGNORED, retryable: true },
  ),
  STATE_CONFLICT: request(409, 'invalid_arguments', 'Read the state again, then repeat the change.'),
  TOOL_NAME_CONFLICT: request(
    409,
    'invalid_arguments',
    'Choose another name or set name_prefix. What a file declares is changed in the file.',
  ),
  PAYLOAD_TOO_LARGE: request(413, 'invalid_arguments', 'Send less data.'),
  IDEMPOTENCY_MISMATCH: request(
    422,
    'invalid_arguments',
    'Use a new idempotency key for other arguments.',
    NEVER_IGNORED,
  ),
  RATE_LIMITED: request(429, 'limit_exceeded', 'Wait, then retry the same call.', RETRYABLE),
  PROGRAM_LIMIT: request(
    429,
    'limit_exceeded',
    'Split the work into several programs, or raise max_calls or max_cost_usd.',
  ),
  QUOTA_EXCEEDED: request(429, 'limit_exceeded', 'Make room as the message says, or ask for a larger quota.', NEVER),
  INTERNAL: request(500, 'internal_error', 'Internal error; report the call_id.', {
    retryable: true,
    blame: 'executor',
    leavesOutcomeOpen: true,
    breaker: 'failure',
    replaceable: true,
  }),
  EXECUTOR_UNAVAILABLE: request(502, 'network_error', 'The service that runs this tool is unavailable; retry later.', {
    retryable: true,
    blame: 'executor',
    leavesOutcomeOpen: true,
    retry: 'redeliver',
    breaker: 'failure',
    replaceable: true,
  }),
  BREAKER_OPEN: request(503, 'network_error', 'The tool is currently failing; retry later.', {
    ...NEVER_IGNORED,
    retryable: true,
    replaceable: true,
  }),
  QUEUE_FULL: request(503, 'internal_error', 'The fleet is busy; retry later.', {
    retryable: true,
    blame: 'fleet',
    breaker: 'ignored',
    replaceable: true,
  }),
  BUDGET_UNAVAILABLE: request(503, 'internal_error', 'The budget service is unavailable; retry later.', {
    ...NEVER_IGNORED,
    retryable: true,
    blame: 'fleet',
  }),
  SERVICE_UNAVAILABLE: request(503, 'internal_error', 'A service of the fleet is unavailable; retry later.', {
    retryable: true,
    blame: 'fleet',
    leavesOutcomeOpen: true,
    breaker: 'ignored',
    replaceable: true,
  }),
  DEADLINE_EXCEEDED: request(504, 'timeout', 'Give the call more time, or retry later.', {
    ...NEVER_IGNORED,
    retryable: true,
    blame: 'fleet',
    leavesOutcomeOpen: true,
  }),

  ATTEMPT_TIMED_OUT: execution('timeout', 'Retry later or simplify the request.', {
    retryable: true,
    leavesOutcomeOpen: true,
    breaker: 'failure',
    replaceable: true,
  }),
  CANCELLED: execution('timeout', 'Retry the call if it is still needed.', {
    ...NEVER_IGNORED,
    retryable: true,
    leavesOutcomeOpen: true,
  }),
  OUTCOME_UNKNOWN: execution('internal_error', 'Check whether the call took effect before you retry it.', {
    ...NEVER_IGNORED,
    blame: 'fleet',
    charge: 'reservation',
  }),
  UPSTREAM_ERROR: execution('upstream_error', 'Read the upstream message; correct the arguments or retry later.', {
    breaker: 'if_retryable',
    replaceable: 'if_retryable',
  }),
  NETWORK_ERROR: execution('network_error', 'The upstream is unreachable; retry later.', {
    retryable: true,
    charge: 'nothing',
    breaker: 'failure',
    replaceable: true,
  }),
  EGRESS_REFUSED: execution('network_error', 'The address is not on the allowlist of the fleet.', {
    ...NEVER,
    charge: 'nothing',
  }),
  RESULT_TOO_LARGE: execution('execution_error', 'Narrow the request so that the result is smaller.', NEVER),
  EXECUTION_FAILED: execution('execution_error', 'Read the message and correct the request.'),
  SANDBOX_ERROR: execution('execution_error', 'Read the Python error and correct the code.'),
  MEMORY_EXCEEDED: execution('execution_error', 'Use less memory.'),
  OUTPUT_LIMIT: execution('execution_error', 'Print or return less.'),
  SANDBOX_POLICY: execution(
    'execution_error',
    'Use only the modules and builtins of strictness strict, or leave out strictness.',
    {
      charge: 'nothing',
    },
  ),
  SANDBOX_CRASHED: execution('execution_error', 'The interpreter terminated abnormally; simplify the code.'),
  OUTSIDE_PLAN: execution(
    'execution_error',
    'The program asked for an effect that its plan does not have, and was stopped before it. Plan it again.',
    NEVER,
  ),
  WORKER_LOST: execution('internal_error', 'The worker died while running this; do not retry it unchanged.', {
    ...NEVER,
    blame: 'executor',
    leavesOutcomeOpen: true,
    breaker: 'failure',
    replaceable: true,
  }),
  AUTH_NOT_CONFIGURED: execution('internal_error', 'The operator must configure credentials for this upstream.', {
    ...NEVER,
    charge: 'nothing',
  }),
  TOOL_ERROR: execution('execution_error', 'Read the message and correct the request.'),
  RESULT_UNREADABLE: execution(
    'execution_error',
    'The tool ran; a further call would have its effect again. Ask the operator of its server about the result.',
    NEVER,
  ),
  RESULT_WITHHELD: execution(
    'execution_error',
    'The tool ran, and an interceptor of the operator withholds its result; ask for something else.',
    NEVER,
  ),
} satisfies Record<string, ErrorEntry>;

/** A code of the catalogue. */
export type ErrorCode = keyof typeof CATALOGUE;

let gatewayAddress = '';

/** Makes addresses of `docUrl` absolute. @param address of the gateway, without a trailing slash */
export function serveDocsAt(address: string): void {
  gatewayAddress = address;
}

/** The row of a code on the page of errors that the gateway serves; a path where its address is not known. */
export const docUrl = (code: ErrorCode): string => `${gatewayAddress}/docs/errors#${code.toLowerCase()}`;

/** Narrows a code that another process sent. */
export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(CATALOGUE, value);
}
