/** Where a command writes to: the writer of terminal.ts; tests collect. */
export interface TextSink {
  /** False asks the writer to wait for `drain`. */
  write(text: string): boolean;
  once?(event: 'drain', listener: () => void): unknown;
}

/** What a command sees of the process; tests give their own. */
export interface CommandIo {
  stdout: TextSink;
  stderr: TextSink;
  env: Readonly<Record<string, string | undefined>>;
}
