import { hash as digest, randomUUID } from 'node:crypto';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import type { DestinationStream } from 'pino';

/**
 * Characters that are buffered before they are written, half the capacity of a pipe, so that writing does not wait for its reader; and
 * the longest time that a line is buffered.
 */
const BUFFER_CHARS = 32_768;
const FLUSH_AFTER_MS = 100;

/** Destinations that may hold lines when the process ends; a process has one logger, a test run has many. */
const open = new Set<BufferedDestination>();

/**
 * Writes many log lines in one system call: at 32 KiB, 100 ms after the first line, with a fatal line (pino calls `flushSync`), and when the
 * process ends. Not pino's `minLength`, which needs a flush for the remainder that also calls fsync on the log.
 */
export class BufferedDestination implements DestinationStream {
  private lines = '';
  private waiting = false;

  constructor(
    private readonly destination: DestinationStream,
    private readonly clock: Clock = new SystemClock(),
  ) {
    if (open.size === 0) process.on('exit', () => open.forEach((lines) => lines.flushSync()));
    open.add(this);
  }

  write(line: string): void {
    this.lines += line;
    if (this.lines.length >= BUFFER_CHARS) return this.flushSync();
    if (this.waiting) return;
    this.waiting = true;
    this.clock.after(FLUSH_AFTER_MS, () => {
      this.waiting = false;
      this.flushSync();
    });
  }

  flushSync(): void {
    if (this.lines === '') return;
    const { lines } = this;
    this.lines = '';
    this.destination.write(lines);
  }
}

/** Value of the field `audit` of lines of the audit log; replaced by their position in the chain. */
export const CHAINED = 'chained';
const PLACE = `"audit":"${CHAINED}"`;
/** `prev` of the first line of a chain. */
const NO_HASH = '0'.repeat(64);

/**
 * Chains the audit lines of a process by hash: each carries `"audit":{"chain","seq","prev","hash"}`, where `hash` is the SHA-256
 * of the line as written with an empty hash, and `prev` that of the line before. A line that is cut, changed, moved or missing
 * breaks the chain. Each process starts a chain with its own name. Quotes inside JSON strings are escaped, so text of a caller
 * cannot imitate the field. Must be the last destination that changes lines.
 */
export function chainedLines(destination: DestinationStream): DestinationStream {
  const chain = randomUUID();
  let seq = 0;
  let prev = NO_HASH;

  const chained = (line: string): string => {
    const at = line.indexOf(PLACE);
    if (at < 0) return line;
    seq += 1;
    const field = (hash: string) => `"audit":{"chain":"${chain}","seq":${seq},"prev":"${prev}","hash":"${hash}"}`;
    const [before, after] = [line.slice(0, at), line.slice(at + PLACE.length)];
    const hash = digest('sha256', `${before}${field('')}${after}`, 'hex');
    const written = `${before}${field(hash)}${after}`;
    prev = hash;
    return written;
  };

  return {
    write: (text) => destination.write(text.includes(PLACE) ? text.split('\n').map(chained).join('\n') : text),
  };
}
