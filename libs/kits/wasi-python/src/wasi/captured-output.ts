const HEADER = { STDOUT_KEPT: 0, STDERR_KEPT: 1, STDOUT_CUT: 2, STDERR_CUT: 3, PAGES: 4, LENGTH: 8 };
/** A run that writes this many times the cap is stopped, so that an endless `print` does not last until the timeout. */
const HARD_STOP_FACTOR = 16;

export type Stream = 1 | 2;

/** Stops the run from inside an import; abandons all frames of the guest. */
export class HostStop extends Error {
  readonly why: 'output_limit';

  constructor(why: 'output_limit') {
    super(why);
    this.why = why;
  }
}

/**
 * Output of a guest on stdout and stderr, and the size of its memory. It is in shared memory, so that the thread pool can
 * read it after terminating the thread: a run that timed out keeps its output.
 */
export class CapturedOutput {
  readonly shared: SharedArrayBuffer;
  private readonly header: Int32Array;
  private readonly data: Uint8Array;
  private readonly cap: number;
  private seen = 0;
  /** Gets every write of the run; cleared by `reset`. */
  observer: ((stream: Stream, bytes: Uint8Array) => void) | undefined;

  /** Keeps `cap` bytes of each stream. Pass the `shared` memory of another instance to read it from another thread. */
  constructor(cap: number, shared = new SharedArrayBuffer(HEADER.LENGTH * 4 + 2 * cap)) {
    this.shared = shared;
    this.cap = cap;
    this.header = new Int32Array(shared, 0, HEADER.LENGTH);
    this.data = new Uint8Array(shared, HEADER.LENGTH * 4);
  }

  /** Clears everything for the next run. Old bytes remain in memory, beyond the kept length. */
  reset(): void {
    this.header.fill(0);
    this.seen = 0;
    this.observer = undefined;
  }

  /** Keeps the first `cap` bytes and marks the stream as cut after that. @throws HostStop beyond 16 times the cap */
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

  /** The kept output as text; invalid UTF-8 becomes U+FFFD. */
  text(stream: Stream): string {
    const start = (stream - 1) * this.cap;
    return new TextDecoder().decode(this.data.slice(start, start + this.header[stream - 1]!));
  }

  /** True if the stream exceeded the cap. */
  isCut(stream: Stream): boolean {
    return this.header[HEADER.STDOUT_CUT + stream - 1] === 1;
  }

  /** Pages of the guest's memory at the last access. */
  get pages(): number {
    return this.header[HEADER.PAGES]!;
  }

  set pages(pages: number) {
    this.header[HEADER.PAGES] = pages;
  }
}
