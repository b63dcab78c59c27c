/** Where a command writes to. `process.stdout` is one; tests collect. */
export interface TextSink {
  /** False asks the writer to wait for `drain`. */
  write(text: string): boolean;
  once?(event: 'drain', listener: () => void): unknown;
}

/** What a command sees of the process; `process` itself fits. */
export interface CommandIo {
  stdout: TextSink;
  stderr: TextSink;
  env: Readonly<Record<string, string | undefined>>;
}
