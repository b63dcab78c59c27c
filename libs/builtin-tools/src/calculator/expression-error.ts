/** A fault of an expression, with the 0-based position it was found at. */
export class ExpressionError extends Error {
  readonly at: number;

  constructor(message: string, at: number) {
    super(message);
    this.name = 'ExpressionError';
    this.at = at;
  }
}

/** Message with position and a caret under the place, as a person or a model can read it. */
export function describeFault(error: ExpressionError, expression: string): string {
  const start = Math.max(0, error.at - 30);
  const shown = expression.slice(start, error.at + 30).replaceAll(/\s/g, ' ');
  return `${error.message} at position ${error.at + 1}:\n${shown}\n${' '.repeat(error.at - start)}^`;
}
