import { readFileSync } from 'node:fs';
import type { Clock } from '@toolfleet/base';
import { PRELOADED_MODULES, STRICT } from '../python/strictness.js';
import { CapturedOutput } from './captured-output.js';
import type { Directory } from './file-tree.js';
import { ERRNO, PAGE_BYTES } from './guest-memory.js';
import { GuestExit, WasiHost } from './wasi-host.js';

/**
 * Boots CPython to a quiescent point, discards the wasm frames, and keeps linear memory and stack pointer. restore.ts later
 * calls a Python function directly through the function table of a copy. Since execution never returns into a C frame, this
 * needs no asyncify, stack switching or extra tool.
 *
 * Every start of the service takes a new snapshot. It never comes from a memory that has run user code, and is never written
 * to disk.
 */

/** A range of the image that is not zero. */
type Stretch = readonly [address: number, length: number];

/** Everything from which a thread restores an interpreter. All threads share the image, never written after creation. */
export interface Snapshot {
  /** The whole memory. Only the stretches were written, so the rest occupies no physical memory. */
  image: SharedArrayBuffer;
  stretches: readonly Stretch[];
  pages: number;
  /** Top of the shadow stack (it grows down to 0). */
  stackTop: number;
  /** The shadow-stack pointer at the snapshot; the area of the discarded frames stays reserved. */
  stackPointer: number;
  /** Address of the function object `_prepare`, called before a run. */
  prepare: number;
  /** Address of the function object `_run`. */
  entry: number;
  /** Address of the empty tuple, used as arguments. */
  noArguments: number;
  /** Index of the functions' `tp_call` in the function table. */
  callSlot: number;
}

/** Exports of an instrumented module. */
export interface GuestExports {
  _start: () => void;
  __table: WebAssembly.Table;
  __sp: WebAssembly.Global;
  /** In the code module, if it bounds its growth. */
  __max_pages?: WebAssembly.Global;
}

export const guestExports = ({ exports }: WebAssembly.Instance) => exports as unknown as GuestExports;

/** Thrown by the host at the quiescent point. JS exceptions unwind wasm frames, and the module has no handlers. */
class QuiescentPoint extends Error {}

/** Struct offsets in 32-bit CPython, identical in 3.11 and 3.12. */
const OB_TYPE = 4;
const TP_CALL = 64;
const CHUNK_BYTES = 4_096;
const SEED_BYTE = 0x5a;
const MARK = '\0SNAP ';
const OUTPUT_CAP = 64 * 1024;

interface SnapshotOptions {
  clock: Clock;
  preopens: Readonly<Record<string, Directory>>;
  maxPages: number;
  /** Bytes of heap to reserve, in addition to 4 MiB in small blocks. */
  heapBytes: number;
}

/** Boots the interpreter once. @throws Error with the guest's stderr if the boot script fails */
export function takeSnapshot(boot: WebAssembly.Module, minPages: number, options: SnapshotOptions): Snapshot {
  const memory = new WebAssembly.Memory({ initial: minPages, maximum: options.maxPages });
  const output = new CapturedOutput(OUTPUT_CAP);
  let addresses: Pick<Snapshot, 'prepare' | 'entry' | 'noArguments'> | undefined;
  const host = new WasiHost({
    clock: options.clock,
    output,
    preopens: options.preopens,
    args: ['python', '-I', '-c', bootScript(options.heapBytes)],
    onWrite: (stream, bytes) => {
      const text = stream === 1 && bytes[0] === 0 ? new TextDecoder().decode(bytes) : '';
      if (!text.startsWith(MARK)) return false;
      const [prepare, entry, noArguments] = text.slice(MARK.length).split(' ').map(Number);
      addresses = { prepare: prepare!, entry: entry!, noArguments: noArguments! };
      return true;
    },
  });
  host.bind(memory);
  const imports = host.imports();
  // The seed of `hash()` is part of the image. With the same one in all workers a program that runs again on another worker
  // iterates over a set in the same order. Who floods a table of their own program slows only that.
  imports.random_get = (at, length) => {
    new Uint8Array(memory.buffer, at >>> 0, length >>> 0).fill(SEED_BYTE);
    return ERRNO.SUCCESS;
  };
  const readClock = imports.clock_time_get;
  // The guest calls `time.time()` here; this keeps the GIL and has no state to unwind; a read would release the GIL.
  imports.clock_time_get = (id, precision, at) => {
    if (addresses) throw new QuiescentPoint();
    return readClock(id, precision, at);
  };
  const instance = new WebAssembly.Instance(boot, { wasi_snapshot_preview1: imports, env: { memory } });
  const guest = guestExports(instance);
  const stackTop = guest.__sp.value as number;
  runToQuiescence(guest, () => output.text(2));
  const { entry } = addresses!;
  const view = new DataView(memory.buffer);
  const callSlot = view.getUint32(view.getUint32(entry + OB_TYPE, true) + TP_CALL, true);
  if (typeof guest.__table.get(callSlot) !== 'function') {
    throw new Error('tp_call is not in the function table: snapshots do not work with this interpreter');
  }
  return {
    ...copyImage(new Uint8Array(memory.buffer)),
    pages: memory.buffer.byteLength / PAGE_BYTES,
    stackTop,
    stackPointer: guest.__sp.value as number,
    ...addresses!,
    callSlot,
  };
}

/** Runs the boot script up to its snapshot. @throws Error with its stderr if it ends or fails before */
function runToQuiescence(guest: GuestExports, stderr: () => string): void {
  try {
    guest._start();
    throw new Error(`the boot script ended without a snapshot: ${stderr()}`);
  } catch (error) {
    if (error instanceof GuestExit)
      throw new Error(`the boot script exited with ${error.code}: ${stderr()}`, { cause: error });
    if (!(error instanceof QuiescentPoint)) throw error;
  }
}

/** Copies the chunks of a memory that are not zero, and lists their ranges, with adjacent chunks joined. */
function copyImage(memory: Uint8Array<ArrayBuffer>): Pick<Snapshot, 'image' | 'stretches'> {
  const words = new BigUint64Array(memory.buffer);
  const wordsPerChunk = CHUNK_BYTES / 8;
  const isZero = (chunk: number) => {
    const end = (chunk + 1) * wordsPerChunk;
    for (let i = chunk * wordsPerChunk; i < end; i++) if (words[i] !== 0n) return false;
    return true;
  };
  const stretches: Stretch[] = [];
  const image = new SharedArrayBuffer(memory.length);
  const bytes = new Uint8Array(image);
  const chunks = memory.length / CHUNK_BYTES;
  for (let chunk = 0; chunk < chunks; chunk++) {
    if (isZero(chunk)) continue;
    let end = chunk + 1;
    while (end < chunks && !isZero(end)) end += 1;
    const [address, length] = [chunk * CHUNK_BYTES, (end - chunk) * CHUNK_BYTES];
    stretches.push([address, length]);
    bytes.set(memory.subarray(address, address + length), address);
    chunk = end;
  }
  return { image, stretches };
}

const BOOT = readFileSync(new URL('../../python/boot.py', import.meta.url), 'utf8');
const INCLUDED: Readonly<Record<string, string>> = {
  'advice.py': readFileSync(new URL('../../python/advice.py', import.meta.url), 'utf8'),
  'strictness.py': readFileSync(new URL('../../python/strictness.py', import.meta.url), 'utf8'),
  'tools.py': readFileSync(new URL('../../python/tools.py', import.meta.url), 'utf8'),
  'patches.py': readFileSync(new URL('../../python/patches.py', import.meta.url), 'utf8'),
  'warm_up.py': readFileSync(new URL('../../python/warm_up.py', import.meta.url), 'utf8'),
};

/** The boot program of a guest: python/boot.py with its includes and placeholders filled in. */
function bootScript(heapBytes: number): string {
  // JSON in a Python string literal that Python parses, so that quotes need no translation.
  const literal = (value: unknown) => `__import__("json").loads(${JSON.stringify(JSON.stringify(value))})`;
  return BOOT.replace(/^# include: (\S+)$/gm, (_, file: string) => INCLUDED[file]!)
    .replace('__PRELOAD__', () => literal(PRELOADED_MODULES))
    .replace('__STRICT__', () => literal(STRICT))
    .replace('__HEAP__', () => String(heapBytes));
}
