import { hash as digest, randomUUID } from 'node:crypto';
import { writeSync } from 'node:fs';
import { SystemClock, type Clock } from '@toolfleet/resilience';

/** Takes lines, each with its line break. pino calls `flushSync` with a fatal line. */
export interface LogDestination {
  write(line: string): void;
  flushSync?(): void;
}

/**
 * Bytes that are buffered before they are written, half the capacity of a pipe, so that writing does not wait for its reader; and
 * the longest time that a line is buffered.
 */
const FLUSH_BYTES = 32_768;
const FLUSH_AFTER_MS = 100;
const BUFFER_BYTES = 2 * FLUSH_BYTES;
/** Of a character of UTF-16 in UTF-8. */
const MAX_CHARACTER_BYTES = 3;

/** Destinations that may hold lines when the process ends; a process has one logger, a test run has many. */
const open = new Set<BufferedDestination>();

/**
 * Writes many log lines in one system call: at 32 KiB, 100 ms after the first line, with a fatal line, and when the process ends. Lines
 * are kept as bytes in one buffer: kept as strings they would have to be copied when they have left the caches of the processor.
 */
export class BufferedDestination implements LogDestination {
  private readonly bytes = Buffer.allocUnsafe(BUFFER_BYTES);
  private used = 0;
  private waiting = false;

  /** @param writeBytes writes all bytes before it returns, and does not keep them */
  constructor(
    private readonly writeBytes: (bytes: Uint8Array) => void,
    private readonly clock: Clock = new SystemClock(),
  ) {
    if (open.size === 0) process.on('exit', () => open.forEach((lines) => lines.flushSync()));
    open.add(this);
  }

  write(line: string): void {
    const most = line.length * MAX_CHARACTER_BYTES;
    if (this.used + most > BUFFER_BYTES) this.flushSync();
    if (most > BUFFER_BYTES) return this.writeBytes(Buffer.from(line));
    this.used += this.bytes.write(line, this.used);
    if (this.used >= FLUSH_BYTES) return this.flushSync();
    if (this.waiting) return;
    this.waiting = true;
    this.clock.after(FLUSH_AFTER_MS, () => {
      this.waiting = false;
      this.flushSync();
    });
  }

  flushSync(): void {
    if (this.used === 0) return;
    const bytes = this.bytes.subarray(0, this.used);
    this.used = 0;
    this.writeBytes(bytes);
  }
}

/** Wait before a full pipe that does not block is tried again. */
const FULL_PIPE_MS = 10;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/**
 * Writes to a file descriptor and waits for the reader of a full pipe. Without a reader the log is lost, and the service runs on.
 * @throws Error of any other failure, such as a full disk: a service that cannot write its audit log ends
 */
export function writerTo(fd: number): (bytes: Uint8Array) => void {
  let hasReader = true;
  return (bytes) => {
    for (let at = 0; hasReader && at < bytes.length;) {
      try {
        at += writeSync(fd, bytes, at);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === 'EPIPE') hasReader = false;
        else if (code === 'EAGAIN') Atomics.wait(sleeper, 0, 0, FULL_PIPE_MS);
        else throw error;
      }
    }
  };
}

/** Value of the field `audit` of lines of the audit log; replaced by their position in the chain. */
export const CHAINED = 'chained';
const PLACE = `"audit":"${CHAINED}"`;
/** `prev` of the first line of a chain. */
const NO_HASH = '0'.repeat(64);

/**
 * Chains the audit lines of a process by hash: each carries `"audit":{"chain","seq","prev","hash"}`, where `hash` is the SHA-256
 * of the line as written, with an empty hash and without its line break, and `prev` the line before's. A line that is cut,
 * changed, moved or missing breaks the chain. Each process starts a chain with its own name. Quotes inside JSON strings are escaped, so
 * text of a caller cannot imitate the field. Must be the last destination that changes lines.
 */
export function chainedLines(destination: LogDestination): LogDestination {
  const chain = randomUUID();
  let seq = 0;
  let prev = NO_HASH;

  const chained = (line: string): string => {
    const at = line.indexOf(PLACE);
    if (at < 0) return line;
    seq += 1;
    const before = `${line.slice(0, at)}"audit":{"chain":"${chain}","seq":${seq},"prev":"${prev}","hash":"`;
    const after = `"}${line.slice(at + PLACE.length, -1)}`;
    prev = digest('sha256', before + after, 'hex');
    return `${before}${prev}${after}\n`;
  };

  return { write: (line) => destination.write(chained(line)), flushSync: () => destination.flushSync?.() };
}
