/** Class of a failure as models and metrics see it. */
export type ErrorClass = 'timeout' | 'invalid_arguments' | 'tool_not_found' | 'network_error' | 'internal_error';

/** All that is known about one error code. */
export interface ErrorEntry {
  /** `request`: refused before the tool ran, becomes the HTTP status. `execution`: the tool ran and failed, in-band with 200. */
  origin: 'request' | 'execution';
  http: number;
  class: ErrorClass;
  retryable: boolean;
  /** Whether the reserved cost is settled although the call failed. */
  chargeable: boolean;
  /** What the caller (a person or a model) can do. */
  hint: string;
}

const request = (http: number, errorClass: ErrorClass, retryable: boolean, hint: string) =>
  ({ origin: 'request', http, class: errorClass, retryable, chargeable: false, hint }) as const;
const execution = (errorClass: ErrorClass, retryable: boolean, chargeable: boolean, hint: string) =>
  ({ origin: 'execution', http: 200, class: errorClass, retryable, chargeable, hint }) as const;

/** Every error code of the fleet: the only place that knows status, retryability and hint. `docs/errors.md` is its mirror. */
export const CATALOGUE = {
  REQUEST_INVALID: request(400, 'invalid_arguments', false, 'Correct the named fields of the request.'),
  ARGUMENTS_INVALID: request(400, 'invalid_arguments', false, 'Check the format and types of the named arguments.'),
  SPEC_INVALID: request(422, 'invalid_arguments', false, 'Correct the OpenAPI document at the named place.'),
  SOURCE_REFUSED: request(
    422,
    'invalid_arguments',
    false,
    'Correct the registration as the message says, or repeat it when the server can be reached.',
  ),
  UNAUTHENTICATED: request(401, 'internal_error', false, 'Send a valid key as Authorization: Bearer or X-API-Key.'),
  BUDGET_EXCEEDED: request(402, 'internal_error', false, 'Ask for a higher limit.'),
  TOKEN_LIMIT_EXCEEDED: request(402, 'internal_error', false, 'Ask for a higher token limit.'),
  PERMISSION_DENIED: request(403, 'internal_error', false, 'Use a credential that may call this tool.'),
  TOOL_DANGEROUS: request(403, 'internal_error', false, 'Dangerous tools are reserved for internal callers.'),
  TOOL_QUARANTINED: request(403, 'internal_error', false, 'An administrator has to approve the changed tool.'),
  POLICY_DENIED: request(403, 'internal_error', false, 'A policy rule forbids this call with these arguments.'),
  APPROVAL_REQUIRED: request(
    403,
    'internal_error',
    false,
    'A person has to agree to this call: make it over MCP with a client that can ask one (elicitation).',
  ),
  TOOL_NOT_FOUND: request(404, 'tool_not_found', false, 'Check the name against the tool list.'),
  NOT_FOUND: request(404, 'tool_not_found', false, 'Check the id or path.'),
  METHOD_NOT_ALLOWED: request(405, 'invalid_arguments', false, 'Use a method that the header Allow names.'),
  CALL_IN_PROGRESS: request(
    409,
    'internal_error',
    true,
    'The first call with this key still runs; repeat later or use Prefer: wait.',
  ),
  TOOL_NAME_CONFLICT: request(409, 'invalid_arguments', false, 'Choose another name or set name_prefix.'),
  PAYLOAD_TOO_LARGE: request(413, 'invalid_arguments', false, 'Send less data.'),
  IDEMPOTENCY_MISMATCH: request(422, 'invalid_arguments', false, 'Use a new idempotency key for other arguments.'),
  RATE_LIMITED: request(429, 'internal_error', true, 'Wait, then repeat the same call.'),
  RESULT_QUOTA_EXCEEDED: request(
    429,
    'internal_error',
    true,
    'Call without an idempotency key, synchronously, or wait until kept results end; ask for a larger quota.',
  ),
  INTERNAL: request(500, 'internal_error', true, 'A fault of the fleet; report the call_id.'),
  EXECUTOR_UNAVAILABLE: request(502, 'network_error', true, 'The service that runs this tool is away; repeat later.'),
  BREAKER_OPEN: request(503, 'network_error', true, 'The tool fails at the moment; repeat later.'),
  QUEUE_FULL: request(503, 'internal_error', true, 'The fleet is busy; repeat later.'),
  BUDGET_UNAVAILABLE: request(503, 'internal_error', true, 'The budget service is away; repeat later.'),
  SERVICE_UNAVAILABLE: request(503, 'internal_error', true, 'A part of the fleet is away; repeat later.'),
  DEADLINE_EXCEEDED: request(504, 'timeout', true, 'Give the call more time, or repeat later.'),

  ATTEMPT_TIMED_OUT: execution('timeout', true, true, 'Repeat later or simplify the request.'),
  CANCELLED: execution('timeout', true, true, 'Repeat the call if it is still wanted.'),
  OUTCOME_UNKNOWN: execution('internal_error', false, true, 'Check the effect before you repeat.'),
  UPSTREAM_ERROR: execution(
    'network_error',
    false,
    true,
    'Read the upstream message; correct the arguments or repeat later.',
  ),
  NETWORK_ERROR: execution('network_error', true, false, 'The upstream could not be reached; repeat later.'),
  EGRESS_REFUSED: execution('network_error', false, false, 'The address is not on the allowlist of the fleet.'),
  RESULT_TOO_LARGE: execution('internal_error', false, true, 'Narrow the request so that the result is smaller.'),
  EXECUTION_FAILED: execution('internal_error', false, true, 'Read the message and correct the request.'),
  SANDBOX_ERROR: execution('internal_error', false, true, 'Read the Python error and correct the code.'),
  MEMORY_EXCEEDED: execution('internal_error', false, true, 'Use less memory.'),
  OUTPUT_LIMIT: execution('internal_error', false, true, 'Print or return less.'),
  SANDBOX_POLICY: execution(
    'internal_error',
    false,
    true,
    'Use only the allowed modules and builtins of this strictness.',
  ),
  SANDBOX_CRASHED: execution('internal_error', false, true, 'The interpreter ended abnormally; simplify the code.'),
  WORKER_LOST: execution(
    'internal_error',
    false,
    true,
    'The worker died while running this; do not repeat it unchanged.',
  ),
  AUTH_NOT_CONFIGURED: execution(
    'internal_error',
    false,
    false,
    'The operator has to configure credentials of this upstream.',
  ),
  TOOL_ERROR: execution('internal_error', false, true, 'Read the message and correct the request.'),
} as const satisfies Record<string, ErrorEntry>;

/** A code of the catalogue. */
export type ErrorCode = keyof typeof CATALOGUE;

/** True for codes of the catalogue; used where a code arrives from outside. */
export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(CATALOGUE, value);
}
