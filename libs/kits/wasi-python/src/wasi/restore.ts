/**
 * Restores an interpreter from a snapshot, for exactly one run. The memory of the previous run is reused if it did not grow
 * and can be bounded as needed, because touching fresh pages takes five times as long. Either way its bytes equal the snapshot
 * afterwards (a spec and every 500th restore compare all of them):
 * - If the module marks its writes (dirty-pages.ts), the marked units and the stack are copied, and the instance is reused;
 *   apart from memory only its stack pointer can have changed.
 * - Otherwise the whole memory is compared with the snapshot, and the module is instantiated again.
 */
import type { Clock } from '@toolfleet/base';
import type { GuestEnd } from '../python/guest-protocol.js';
import { HostStop, type CapturedOutput } from './captured-output.js';
import { LARGEST_STORE, UNIT_BYTES } from './dirty-pages.js';
import { filesBelow, type Directory, type FileNode } from './file-tree.js';
import { PAGE_BYTES } from './guest-memory.js';
import { guestExports, type GuestExports, type Snapshot } from './snapshot.js';
import type { ProgramBridge } from './program-bridge.js';
import { GuestExit, WasiHost } from './wasi-host.js';

interface GuestOptions {
  clock: Clock;
  output: CapturedOutput;
  /** With the paths and order of the boot. */
  preopens: Readonly<Record<string, Directory>>;
  maxPages: number;
}

interface RestoreOptions extends GuestOptions {
  /** An interpreter that has finished its run. */
  reuse?: Guest | null;
}

/** Returns an interpreter for one run, made of the code module (without data) and a snapshot. */
export function restore(code: WebAssembly.Module, snapshot: Snapshot, options: RestoreOptions): Guest {
  // A new guest must not keep the one that it replaces.
  const { reuse, ...own } = options;
  if (!reuse || reuse.hasGrown || !reuse.bound(options.maxPages)) return new Guest(code, snapshot, own);
  reuse.reset();
  return reuse;
}

const NO_PACKAGES: Directory = new Map();

/** The check takes two milliseconds: rare enough not to matter, frequent enough to reveal a bug. */
const RESTORES_PER_CHECK = 500;

/** An interpreter instance with its memory and WASI host. */
export class Guest {
  readonly memory: WebAssembly.Memory;
  private readonly host: WasiHost;
  private readonly written: WebAssembly.Memory | undefined;
  private exports: GuestExports;
  private restores = 0;
  private isPrepared = false;
  private maxPages: number;
  private folder: Directory = new Map();
  /** Bytes of the files of this run; they count to its memory. */
  private fileBytes = 0;

  constructor(
    private readonly code: WebAssembly.Module,
    private readonly snapshot: Snapshot,
    private readonly options: GuestOptions,
  ) {
    const maximum = Math.max(options.maxPages, snapshot.pages);
    this.memory = new WebAssembly.Memory({ initial: snapshot.pages, maximum });
    if (WebAssembly.Module.imports(code).some(({ name }) => name === 'written')) {
      const pages = Math.ceil(maximum / UNIT_BYTES);
      this.written = new WebAssembly.Memory({ initial: pages, maximum: pages });
    }
    this.maxPages = options.maxPages;
    this.host = new WasiHost({ ...options, charge: (bytes) => this.charge(bytes) });
    this.host.bind(this.memory, this.written);
    const bytes = new Uint8Array(this.memory.buffer);
    const image = new Uint8Array(snapshot.image);
    for (const [at, length] of snapshot.stretches) bytes.set(image.subarray(at, at + length), at);
    this.exports = this.instantiate();
    this.bound(options.maxPages);
  }

  /**
   * Sets the most pages to which the memory may grow, also of an interpreter that is prepared. False if this one cannot have that bound:
   * it is above the maximum of its memory, or the module does not bound its growth.
   */
  bound(maxPages: number): boolean {
    const { __max_pages: limit } = this.exports;
    if (!limit || maxPages > this.options.maxPages) return maxPages === this.options.maxPages;
    this.maxPages = maxPages;
    this.charge(0);
    return true;
  }

  /** Adds bytes of files to the memory of the run; false if it has more than its limit now. */
  private charge(bytes: number): boolean {
    this.fileBytes += bytes;
    const own = this.memory.buffer.byteLength / PAGE_BYTES;
    const left = this.maxPages - Math.ceil(this.fileBytes / PAGE_BYTES);
    const { __max_pages: limit } = this.exports;
    // Below the size of the memory, the remaining growth would be negative: a large unsigned number.
    if (limit) limit.value = Math.max(left, own);
    return left >= own;
  }

  /** Files that the run wrote to its folder, with their paths there. */
  writtenFiles(): [path: string, file: FileNode][] {
    return [...filesBelow(this.folder)].filter(([, { isWritten }]) => isWritten);
  }

  /** True if the memory grew; it is not reused then. */
  get hasGrown(): boolean {
    return this.memory.buffer.byteLength !== this.snapshot.pages * PAGE_BYTES;
  }

  /** Does the part of a run that does not depend on the request. `run` does it if this was not called. */
  prepare(): void {
    if (this.isPrepared) return;
    this.isPrepared = true;
    this.call(this.snapshot.prepare);
  }

  /** Runs the guest until it ends in any way. Never throws. */
  run(
    request: Uint8Array,
    folder: Directory = new Map(),
    { program, packages = NO_PACKAGES }: { program?: ProgramBridge | undefined; packages?: Directory } = {},
  ): { end: GuestEnd; frame: Uint8Array | null } {
    const { host } = this;
    let end: GuestEnd = { kind: 'returned' };
    try {
      this.prepare();
      host.stdin = request;
      if (program) host.attach(program);
      this.folder = folder;
      host.mount(folder, packages);
      this.call(this.snapshot.entry);
    } catch (error) {
      end = toGuestEnd(error);
    }
    this.options.output.pages = this.memory.buffer.byteLength / PAGE_BYTES;
    return { end, frame: host.result() };
  }

  /** Restores the snapshot. @throws Error if a periodic check finds a difference; no run may start on such a memory */
  reset(): void {
    const bytes = new Uint8Array(this.memory.buffer);
    this.host.reset();
    this.folder = new Map();
    this.charge(-this.fileBytes);
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
      throw new Error('the restored memory is not that of the snapshot');
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
    const imports = { wasi_snapshot_preview1: this.host.imports(), env: written ? { memory, written } : { memory } };
    const exports = guestExports(new WebAssembly.Instance(this.code, imports));
    exports.__sp.value = this.snapshot.stackPointer;
    return exports;
  }
}

/** Copies the stack and each marked unit, including the end of a store that began in it, and clears the marks. */
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
 * Copies what differs below `end`. Pages without a difference are only read, because writing would make the many untouched
 * ones resident, about 10 MB per thread.
 */
function restoreDiffering(bytes: Uint8Array, image: Uint8Array, end: number): void {
  for (let at = 0; at < end; at += PAGE_BYTES) {
    const part = image.subarray(at, Math.min(end, at + PAGE_BYTES));
    if (Buffer.compare(bytes.subarray(at, at + part.length), part) !== 0) bytes.set(part, at);
  }
}

function toGuestEnd(error: unknown): GuestEnd {
  if (error instanceof GuestExit) return { kind: 'exited', code: error.code };
  if (error instanceof HostStop) return { kind: 'stopped', why: error.why };
  return { kind: 'trapped', message: String(error) };
}
