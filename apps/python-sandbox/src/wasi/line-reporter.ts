/**
 * Lines of stdout as progress of a run that still goes on. Bounded in rate and number: a program that prints a million
 * lines must not become a million events.
 */
import type { Milliseconds } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience/clock';

const INTERVAL_MS: Milliseconds = 100;
/** A run that ends sooner is answered before anybody could read its progress. */
const FIRST_AFTER_MS: Milliseconds = 300;
const MAX_REPORTS = 200;
const MAX_CHARS = 2_000;

export class LineReporter {
  private readonly decoder = new TextDecoder();
  private pending = '';
  private reports = 0;
  private nextAt: Milliseconds;

  constructor(
    private readonly clock: Clock,
    private readonly report: (lines: string) => void,
  ) {
    this.nextAt = clock.monotonic() + FIRST_AFTER_MS;
  }

  /** Takes bytes of stdout; whole lines go out, at most ten times a second. */
  write(bytes: Uint8Array): void {
    if (this.reports >= MAX_REPORTS) return;
    this.pending = (this.pending + this.decoder.decode(bytes.slice(), { stream: true })).slice(-2 * MAX_CHARS);
    const now = this.clock.monotonic();
    const end = this.pending.lastIndexOf('\n');
    if (end < 0 || now < this.nextAt) return;
    this.report(this.pending.slice(0, end).slice(-MAX_CHARS));
    this.pending = this.pending.slice(end + 1);
    this.reports += 1;
    this.nextAt = now + INTERVAL_MS;
  }
}
