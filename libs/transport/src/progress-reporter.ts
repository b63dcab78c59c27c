import type { CallProgress, Milliseconds } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import { encode } from './codec.js';
import type { NatsLink } from './nats-connection.js';

/** Time between two reports of one call: a tool that counts to a million must not send a million messages. */
const INTERVAL_MS: Milliseconds = 100;
/** Reports that need not keep the interval, so that a tool with a few quick steps shows each of them. */
const BURST = 3;
/** Most reports of one send while it runs; a call of several hours continues without them, and its last one ends it. */
const MAX_REPORTS = 1_000;
const MAX_MESSAGE_CHARS = 2_000;

/** Subjects that a caller may name in `Tf-Progress`; any other would let it publish with the rights of the executor. */
const PROGRESS_SUBJECT = new RegExp(`^${SUBJECTS.execProgress.replaceAll('.', '\\.')}\\.[\\w-]+\\.[\\w-]+$`);

/**
 * The executor's side of progress: publishes three reports at once, and ten a second after that. A newer report replaces the one that is waiting, and
 * the last one is sent when the call ends, before its reply.
 */
export class ProgressReporter {
  #sent = 0;
  /** When the reports that were sent would have been due, one per interval. */
  #dueAt: Milliseconds = 0;
  #waiting: CallProgress | undefined;
  #cancelTimer: CancelTimer | undefined;
  #closed = false;

  private constructor(
    private readonly link: NatsLink,
    private readonly clock: Clock,
    private readonly subject: string,
  ) {}

  /** A reporter to the subject that the caller named; undefined when it named none, or one that is not for progress. */
  static to(subject: string | undefined, link: NatsLink, clock: Clock): ProgressReporter | undefined {
    return subject !== undefined && PROGRESS_SUBJECT.test(subject)
      ? new ProgressReporter(link, clock, subject)
      : undefined;
  }

  /** Accepts a report; never throws. */
  readonly report = (progress: CallProgress): void => {
    if (this.#closed) return;
    const waitMs = this.#dueAt - (BURST - 1) * INTERVAL_MS - this.clock.monotonic();
    if (waitMs <= 0 && this.#sent < MAX_REPORTS) return this.#publish(progress);
    this.#waiting = progress;
    if (this.#sent < MAX_REPORTS)
      this.#cancelTimer ??= this.clock.after(waitMs, () => {
        this.#cancelTimer = undefined;
        if (this.#waiting) this.#publish(this.#waiting);
      });
  };

  /** Sends the report that waits and ends the reports: none may follow the reply. */
  close(): void {
    this.#closed = true;
    this.#cancelTimer?.();
    if (this.#waiting) this.#publish(this.#waiting);
  }

  #publish(progress: CallProgress): void {
    this.#waiting = undefined;
    this.#dueAt = Math.max(this.#dueAt, this.clock.monotonic()) + INTERVAL_MS;
    // While disconnected, reports are dropped: old progress is of no use.
    if (!this.link.connected) return;
    this.#sent += 1;
    try {
      const message = progress.message?.slice(0, MAX_MESSAGE_CHARS);
      this.link.publish(this.subject, encode({ ...progress, message }));
    } catch {
      // A report that cannot be encoded must not fail the call. This also runs in a timer, where nothing would catch it.
    }
  }
}
