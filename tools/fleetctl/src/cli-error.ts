/** An error that is printed as one message and ends the program with an exit code for scripts. */
export class CliError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.failed) {
    super(message);
    this.name = 'CliError';
    this.exitCode = exitCode;
  }
}

/** Exit codes: success, failed call or fleet, usage error, no connection, not allowed. 130 is used for Ctrl-C. */
export const EXIT = { ok: 0, failed: 1, usage: 2, connection: 3, refused: 4 } as const;
