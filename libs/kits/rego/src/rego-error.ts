/** Why a policy was refused, or why its evaluation failed. */
type RegoErrorCode =
  | 'parse_error'
  | 'compile_error'
  | 'unsafe_var'
  | 'recursion'
  | 'unsupported'
  | 'conflict'
  | 'type_error'
  | 'builtin_error'
  | 'limit';

/** A position in a policy file; line and column start at 1. */
export interface Place {
  file: string;
  line: number;
  column: number;
}

/** An error in a policy, with its position. The first five codes occur when it is loaded, the others when it is evaluated. */
export class RegoError extends Error {
  constructor(
    readonly code: RegoErrorCode,
    message: string,
    readonly place?: Place,
  ) {
    super(place ? `${place.file}:${place.line}:${place.column}: ${message}` : message);
    this.name = 'RegoError';
  }
}
