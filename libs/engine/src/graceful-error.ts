import { CATALOGUE, type ErrorClass, type ErrorCode, type ExecutionFailure } from '@toolfleet/contracts';

/** What a model may do about a class of failure. */
const BY_CLASS: Record<ErrorClass, string> = {
  timeout: 'Retry later or simplify the request.',
  invalid_arguments: 'Check the format and types of the arguments, then repeat.',
  tool_not_found: 'Check the name against the tool list.',
  network_error: 'The system is unavailable at the moment; repeat later.',
  internal_error: 'The system is unavailable at the moment; repeat later.',
};

/** Advice for the model: the catalogue's hint of the code, else that of its class. */
export function suggestionFor(code: ErrorCode, errorType: ErrorClass): string {
  return CATALOGUE[code].hint || BY_CLASS[errorType];
}

/** A failure as JSON text a model can read, escaped by JSON.stringify. */
export function gracefulText(tool: string, failure: ExecutionFailure): string {
  return JSON.stringify({
    error: failure.errorType,
    tool,
    message: failure.message,
    suggestion: suggestionFor(failure.code, failure.errorType),
  });
}
