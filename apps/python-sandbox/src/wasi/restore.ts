/**
 * A ready interpreter from a snapshot, for exactly one run. Its memory is taken again for the next run when it did not
 * grow and has the same maximum; touching fresh pages would take five times as long. Either way the bytes are those of
 * the snapshot again (a test compares them all, and every 500th restore does):
 * - a module that marks what it writes (dirty-pages.ts) gets back the marked parts and its stack, and with them its
 *   instance, of which nothing but the stack pointer can have changed besides;
 * - any other is compared with the snapshot from end to end, and gets a new instance.
 */
import type { Clock } from '@toolfleet/resilience/clock';
import type { GuestEnd } from '../python/guest-protocol.js';
import { HostStop, type CapturedOutput } from './captured-output.js';
import { LARGEST_STORE, UNIT_BYTES } from './dirty-pages.js';
import type { Directory } from './guest-files.js';
import { PAGE_BYTES } from './guest-memory.js';
import type { GuestExports, Snapshot } from './snapshot.js';
import { GuestExit, WasiHost } from './wasi-host.js';

export interface RestoreOptions {
  clock: Clock;
  output: CapturedOutput;
  /** The names and order of the boot. */
  preopens: Readonly<Record<string, Directory>>;
  maxPages: number;
  /** An interpreter that has run. */
  reuse?: Guest | null;
}

/** Makes an interpreter for one run from the code module (without data) and a snapshot. */
export function restore(code: WebAssembly.Module, snapshot: Snapshot, options: RestoreOptions): Guest {
  const { reuse } = options;
  if (!reuse || reuse.hasGrown || reuse.maxPages !== options.maxPages) return new Guest(code, snapshot, options);
  reuse.reset();
  return reuse;
}

/** So seldom that nobody notices the two milliseconds, so often that a fault of ours would not stay hidden. */
const RESTORES_PER_CHECK = 500;

export class Guest {
  readonly memory: WebAssembly.Memory;
  readonly maxPages: number;
  private readonly host: WasiHost;
  private readonly written: WebAssembly.Memory | undefined;
  private exports: GuestExports;
  private restores = 0;
  private isPrepared = false;

  constructor(
    private readonly code: WebAssembly.Module,
    private readonly snapshot: Snapshot,
    private readonly options: RestoreOptions,
  ) {
    const { maxPages } = options;
    this.maxPages = maxPages;
    const maximum = Math.max(maxPages, snapshot.pages);
    this.memory = new WebAssembly.Memory({ initial: snapshot.pages, maximum });
    if (WebAssembly.Module.imports(code).some(({ name }) => name === 'written')) {
      const pages = Math.ceil(maximum / UNIT_BYTES);
      this.written = new WebAssembly.Memory({ initial: pages, maximum: pages });
    }
    this.host = new WasiHost(options);
    this.host.bind(this.memory, this.written);
    const bytes = new Uint8Array(this.memory.buffer);
    const image = new Uint8Array(snapshot.image);
    for (const [at, length] of snapshot.stretches) bytes.set(image.subarray(at, at + length), at);
    this.exports = this.instantiate();
  }

  /** True when the memory grew: it is never used again then. */
  get hasGrown(): boolean {
    return this.memory.buffer.byteLength !== this.snapshot.pages * PAGE_BYTES;
  }

  /** Does in advance what a run needs and no request changes; a run does it itself otherwise. */
  prepare(): void {
    if (this.isPrepared) return;
    this.isPrepared = true;
    this.call(this.snapshot.prepare);
  }

  /** Runs to the end, whatever that is. Never throws. */
  run(request: Uint8Array, data?: Directory): { end: GuestEnd; frame: Uint8Array | null } {
    const { host } = this;
    let end: GuestEnd = { kind: 'returned' };
    try {
      this.prepare();
      host.stdin = request;
      if (data) host.mount('/data', data);
      this.call(this.snapshot.entry);
    } catch (error) {
      end = endOf(error);
    }
    this.options.output.pages = this.memory.buffer.byteLength / PAGE_BYTES;
    return { end, frame: host.result() };
  }

  /** Makes it new again. Throws an Error, in the check, when that failed: no run may begin on such a memory. */
  reset(): void {
    const bytes = new Uint8Array(this.memory.buffer);
    this.host.reset();
    if (this.written) {
      const marks = new Uint8Array(this.written.buffer, 0, bytes.length / UNIT_BYTES);
      restoreWritten(bytes, marks, this.snapshot);
      this.exports.__sp.value = this.snapshot.stackPointer;
    } else {
      restoreDiffering(bytes, new Uint8Array(this.snapshot.image), bytes.length);
      this.exports = this.instantiate();
    }
    this.isPrepared = false;
    this.restores += 1;
    if (this.restores % RESTORES_PER_CHECK === 0 && Buffer.compare(bytes, new Uint8Array(this.snapshot.image)) !== 0) {
      throw new Error('a restored memory is not that of the snapshot');
    }
  }

  /** Calls a function object of the image that takes no arguments. */
  private call(callable: number): void {
    const { callSlot, noArguments } = this.snapshot;
    const call = this.exports.__table.get(callSlot) as (fn: number, args: number, kwargs: number) => number;
    call(callable, noArguments, 0);
  }

  private instantiate(): GuestExports {
    const { memory, written } = this;
    const imports = { wasi_snapshot_preview1: this.host.imports(), env: { memory, ...(written && { written }) } };
    const exports = new WebAssembly.Instance(this.code, imports).exports as unknown as GuestExports;
    exports.__sp.value = this.snapshot.stackPointer;
    return exports;
  }
}

/** Copies the stack and each marked unit, with the end of a store that began in it, and takes the marks away. */
function restoreWritten(bytes: Uint8Array, marks: Uint8Array, snapshot: Snapshot): void {
  const image = new Uint8Array(snapshot.image);
  restoreDiffering(bytes, image, snapshot.stackTop);
  for (let unit = marks.indexOf(1); unit >= 0; unit = marks.indexOf(1, unit + 1)) {
    marks[unit] = 0;
    const at = unit * UNIT_BYTES;
    bytes.set(image.subarray(at, at + UNIT_BYTES + LARGEST_STORE), at);
  }
}

/**
 * Copies what differs below `end`. Pages a run never touched are only read: most of them are, and writing would make
 * them resident, some 10 MB for each thread.
 */
function restoreDiffering(bytes: Uint8Array, image: Uint8Array, end: number): void {
  for (let at = 0; at < end; at += PAGE_BYTES) {
    const part = image.subarray(at, Math.min(end, at + PAGE_BYTES));
    if (Buffer.compare(bytes.subarray(at, at + part.length), part) !== 0) bytes.set(part, at);
  }
}

function endOf(error: unknown): GuestEnd {
  if (error instanceof GuestExit) return { kind: 'exited', code: error.code };
  if (error instanceof HostStop) return { kind: 'stopped', why: error.why };
  return { kind: 'trapped', message: String(error) };
}
