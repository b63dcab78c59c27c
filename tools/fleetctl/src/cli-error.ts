/** A fault to be told in one line, with the exit code that tells scripts what kind it is. */
export class CliError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.failed) {
    super(message);
    this.name = 'CliError';
    this.exitCode = exitCode;
  }
}

/** Exit codes: 0 done, 1 the call or the fleet failed, 2 used wrongly, 3 no connection, 4 not allowed. */
export const EXIT = { ok: 0, failed: 1, usage: 2, connection: 3, refused: 4 } as const;
