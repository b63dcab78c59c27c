import { isJsonObject, type CallProgress, type Milliseconds } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import { encode } from './codec.js';
import type { NatsLink } from './nats-connection.js';

/** Between two reports of one call: a tool that counts to a million must not become a million messages. */
const INTERVAL_MS: Milliseconds = 100;
/** Reports of one send at most; a call of hours then goes on in silence. */
const MAX_REPORTS = 1_000;
const MAX_MESSAGE_CHARS = 2_000;

/** Subjects a caller may name in `Tf-Progress`; any other would let it publish with the rights of the executor. */
const PROGRESS_SUBJECT = new RegExp(`^${SUBJECTS.execProgress.replaceAll('.', '\\.')}\\.[\\w-]+\\.[\\w-]+$`);

/**
 * The executor's side of progress: publishes at most ten reports a second. What comes faster replaces what waits, so the
 * newest one always goes out, unless the call ends first.
 */
export class ProgressReports {
  #sent = 0;
  #nextAt: Milliseconds = 0;
  #waiting: CallProgress | undefined;
  #cancelTimer: CancelTimer | undefined;
  #closed = false;

  private constructor(
    private readonly link: NatsLink,
    private readonly clock: Clock,
    private readonly subject: string,
  ) {}

  /** Reports to a subject that a caller named; undefined when it named none, or one that is not for progress. */
  static to(subject: string | undefined, link: NatsLink, clock: Clock): ProgressReports | undefined {
    return subject !== undefined && PROGRESS_SUBJECT.test(subject)
      ? new ProgressReports(link, clock, subject)
      : undefined;
  }

  /** Takes a report; never throws. */
  readonly report = (progress: CallProgress): void => {
    if (this.#closed || this.#sent >= MAX_REPORTS) return;
    const waitMs = this.#nextAt - this.clock.monotonic();
    if (waitMs <= 0) return this.#publish(progress);
    this.#waiting = progress;
    this.#cancelTimer ??= this.clock.after(waitMs, () => {
      this.#cancelTimer = undefined;
      if (this.#waiting) this.#publish(this.#waiting);
    });
  };

  /** Ends the reports: the answer follows, and nothing comes after it. */
  close(): void {
    this.#closed = true;
    this.#cancelTimer?.();
  }

  #publish(progress: CallProgress): void {
    this.#waiting = undefined;
    this.#nextAt = this.clock.monotonic() + INTERVAL_MS;
    // Progress of the past is worth nothing: while NATS is away it is dropped.
    if (!this.link.connected) return;
    this.#sent += 1;
    try {
      this.link.publish(this.subject, encode(bounded(progress)));
    } catch {
      // A report that is no JSON is the tool's fault, and not worth its call. This runs in a timer, too.
    }
  }
}

/** The caller's side: a report as it arrived, or undefined when it is none. Unknown fields are dropped. */
export function progressOf(body: unknown): CallProgress | undefined {
  if (!isJsonObject(body)) return undefined;
  const { message, progress, total } = body;
  const found: CallProgress = {
    ...(typeof message === 'string' ? { message } : {}),
    ...(typeof progress === 'number' ? { progress } : {}),
    ...(typeof total === 'number' ? { total } : {}),
  };
  return Object.keys(found).length > 0 ? found : undefined;
}

function bounded({ message, ...rest }: CallProgress): CallProgress {
  return message === undefined ? rest : { ...rest, message: message.slice(0, MAX_MESSAGE_CHARS) };
}
