/** Why a policy was refused, or why its evaluation ended. */
export type RegoErrorCode =
  | 'parse_error'
  | 'compile_error'
  | 'unsafe_var'
  | 'recursion'
  | 'unsupported'
  | 'conflict'
  | 'type_error'
  | 'builtin_error'
  | 'limit';

/** A place in a policy file; both numbers from 1. */
export interface Place {
  file: string;
  line: number;
  column: number;
}

/** A fault of a policy, with its place. The first five codes come at load, the others at evaluation. */
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
