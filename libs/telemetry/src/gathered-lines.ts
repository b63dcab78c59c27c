import { SystemClock, type Clock } from '@toolfleet/resilience';
import type { DestinationStream } from 'pino';

/**
 * Characters gathered before they are written, and how long a line waits at most: one system call for many lines. Half of
 * what a pipe takes, so that writing does not wait for its reader.
 */
const GATHER_CHARS = 32_768;
const FLUSH_AFTER_MS = 100;

/** Everything that may hold lines when the process ends; a process has one logger, a test run has many. */
const open = new Set<BufferedDestination>();

/**
 * Writes many log lines at once: at 32 KiB, 100 ms after the first line, with a fatal line (pino calls `flushSync`) and when
 * the process ends. Not pino's own `minLength`: that one needs a flush for the rest, which also calls fsync on the log.
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
    if (this.lines.length >= GATHER_CHARS) return this.flushSync();
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
