/**
 * What a guest wrote to stdout and stderr, and how far its memory grew. It lies in shared memory, so that the thread
 * pool can still read it after it had to end the thread: a run that timed out keeps what it had printed.
 */
const HEADER = { STDOUT_KEPT: 0, STDERR_KEPT: 1, STDOUT_CUT: 2, STDERR_CUT: 3, PAGES: 4, LENGTH: 8 };
/** Writing so many times the cap ends the run: an endless `print` should not last until the deadline. */
const HARD_STOP_FACTOR = 16;

export type Stream = 1 | 2;

/** The run was ended from inside an import; abandons all frames of the guest. */
export class HostStop extends Error {
  readonly why: 'output_limit';

  constructor(why: 'output_limit') {
    super(why);
    this.why = why;
  }
}

export class CapturedOutput {
  readonly shared: SharedArrayBuffer;
  private readonly header: Int32Array;
  private readonly data: Uint8Array;
  private readonly cap: number;
  private seen = 0;
  /** Sees every write of the run; cleared by reset. */
  observer: ((stream: Stream, bytes: Uint8Array) => void) | undefined;

  /** `cap` bytes are kept of each stream. Pass the `shared` of another one to look into it from another thread. */
  constructor(cap: number, shared = new SharedArrayBuffer(HEADER.LENGTH * 4 + 2 * cap)) {
    this.shared = shared;
    this.cap = cap;
    this.header = new Int32Array(shared, 0, HEADER.LENGTH);
    this.data = new Uint8Array(shared, HEADER.LENGTH * 4);
  }

  /** Forgets everything, for the next run. The old bytes stay but are beyond the kept length. */
  reset(): void {
    this.header.fill(0);
    this.seen = 0;
    this.observer = undefined;
  }

  /** Keeps the first `cap` bytes, marks the rest as cut. Throws HostStop past 16 times the cap. */
  write(stream: Stream, bytes: Uint8Array): void {
    const index = stream - 1;
    const kept = this.header[index]!;
    const take = Math.min(bytes.length, this.cap - kept);
    if (take > 0) {
      this.data.set(bytes.subarray(0, take), index * this.cap + kept);
      this.header[index] = kept + take;
    }
    if (take < bytes.length) this.header[HEADER.STDOUT_CUT + index] = 1;
    this.observer?.(stream, bytes);
    this.seen += bytes.length;
    if (this.seen > HARD_STOP_FACTOR * this.cap) throw new HostStop('output_limit');
  }

  /** What was kept, as text; bytes that are no UTF-8 become U+FFFD. */
  text(stream: Stream): string {
    const start = (stream - 1) * this.cap;
    return new TextDecoder().decode(this.data.slice(start, start + this.header[stream - 1]!));
  }

  isCut(stream: Stream): boolean {
    return this.header[HEADER.STDOUT_CUT + stream - 1] === 1;
  }

  /** Pages of the guest's memory when it was last looked at. */
  get pages(): number {
    return this.header[HEADER.PAGES]!;
  }

  set pages(pages: number) {
    this.header[HEADER.PAGES] = pages;
  }
}
