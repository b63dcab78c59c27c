import { readFileSync } from 'node:fs';
import type { Clock } from '@toolfleet/resilience/clock';
import { CapturedOutput } from './captured-output.js';
import type { Directory } from './guest-files.js';
import { PAGE_BYTES } from './guest-memory.js';
import { GuestExit, WasiHost } from './wasi-host.js';

/**
 * Runs CPython up to a quiet point, throws the wasm frames away and keeps linear memory and the stack pointer. Later, in
 * a copy, a Python function is called directly through the function table (restore.ts). No live C frame is ever
 * returned into, so no asyncify, no stack switching and no extra tool is needed.
 *
 * Taken anew at every start of the service: the seed of `hash()` is part of the image. Never taken from a memory that
 * has run user code, never written to disk.
 */

/** A part of the image that is not zero. */
export type Stretch = readonly [address: number, length: number];

/** Everything a thread needs to make a ready interpreter. The image is shared by all threads and never written again. */
export interface Snapshot {
  /** The whole memory. Between the stretches it was never written, so it takes no room there. */
  image: SharedArrayBuffer;
  stretches: readonly Stretch[];
  pages: number;
  /** Where the shadow stack begins; it grows down to 0. */
  stackTop: number;
  /** The shadow-stack pointer as it stood: the abandoned frames' area below it stays reserved. */
  stackPointer: number;
  /** Address of the function object `_prepare`, to be called before a run. */
  prepare: number;
  /** Address of the function object `_run`. */
  entry: number;
  /** Address of the empty tuple, its arguments. */
  noArguments: number;
  /** Index of `tp_call` of its type in the function table. */
  callSlot: number;
}

/** Exports of an edited module. */
export interface GuestExports {
  _start: () => void;
  __table: WebAssembly.Table;
  __sp: WebAssembly.Global;
}

/** Thrown by the host at the quiet point. JS exceptions pass through wasm frames; the module has no handlers. */
class QuietPoint extends Error {}

/** Offsets in 32-bit CPython, the same in 3.11 and 3.12. */
const OB_TYPE = 4;
const TP_CALL = 64;
const CHUNK_BYTES = 4_096;
const MARK = '\0SNAP ';
const OUTPUT_CAP = 64 * 1024;

export interface SnapshotOptions extends BootOptions {
  clock: Clock;
  preopens: Readonly<Record<string, Directory>>;
  maxPages: number;
}

/** Boots the interpreter once. Throws an Error with the guest's stderr when the boot script fails. */
export function takeSnapshot(boot: WebAssembly.Module, minPages: number, options: SnapshotOptions): Snapshot {
  const memory = new WebAssembly.Memory({ initial: minPages, maximum: options.maxPages });
  const output = new CapturedOutput(OUTPUT_CAP);
  let addresses: Pick<Snapshot, 'prepare' | 'entry' | 'noArguments'> | undefined;
  const host = new WasiHost({
    clock: options.clock,
    output,
    preopens: options.preopens,
    args: ['python', '-I', '-c', bootScript(options)],
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
  const tell = imports.clock_time_get;
  // `time.time()` keeps the GIL and has no state to finish; a read would release the GIL around the call.
  imports.clock_time_get = (id, precision, at) => {
    if (addresses) throw new QuietPoint();
    return tell(id, precision, at);
  };
  const instance = new WebAssembly.Instance(boot, { wasi_snapshot_preview1: imports, env: { memory } });
  const guest = instance.exports as unknown as GuestExports;
  const stackTop = guest.__sp.value as number;
  try {
    guest._start();
    throw new Error(`the boot script ended without a snapshot: ${output.text(2)}`);
  } catch (error) {
    if (error instanceof GuestExit) {
      throw new Error(`the boot script exited with ${error.code}: ${output.text(2)}`, { cause: error });
    }
    if (!(error instanceof QuietPoint)) throw error;
  }
  const { entry } = addresses!;
  const view = new DataView(memory.buffer);
  const callSlot = view.getUint32(view.getUint32(entry + OB_TYPE, true) + TP_CALL, true);
  if (typeof guest.__table.get(callSlot) !== 'function') {
    throw new Error('tp_call does not resolve in the function table: this interpreter cannot be snapshot-started');
  }
  return {
    ...imageOf(new Uint8Array(memory.buffer)),
    pages: memory.buffer.byteLength / PAGE_BYTES,
    stackTop,
    stackPointer: guest.__sp.value as number,
    ...addresses!,
    callSlot,
  };
}

/** A copy of the memory in which zero chunks are left alone, and where the others lie, neighbours joined. */
function imageOf(memory: Uint8Array<ArrayBuffer>): Pick<Snapshot, 'image' | 'stretches'> {
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
  'strictness.py': readFileSync(new URL('../../python/strictness.py', import.meta.url), 'utf8'),
  'patches.py': readFileSync(new URL('../../python/patches.py', import.meta.url), 'utf8'),
  'warm_up.py': readFileSync(new URL('../../python/warm_up.py', import.meta.url), 'utf8'),
};

export interface BootOptions {
  /** Imported before the snapshot. */
  preload: readonly string[];
  /** Lists of each level; null modules mean all. */
  levels: Readonly<Record<string, { modules: readonly string[] | null; bannedBuiltins: readonly string[] }>>;
  /** Bytes of heap to have ready, beside 4 MiB in small pieces. */
  heapBytes: number;
}

/** The program that a guest boots with: python/boot.py with its includes and placeholders filled in. */
export function bootScript(options: BootOptions): string {
  const levels = Object.fromEntries(
    Object.entries(options.levels).map(([level, rules]) => [
      level,
      { modules: rules.modules, banned: rules.bannedBuiltins },
    ]),
  );
  // JSON text inside a Python literal: parsed by json once it is imported, so that null and quotes need no care.
  const literal = (value: unknown) => `__import__("json").loads(${JSON.stringify(JSON.stringify(value))})`;
  return BOOT.replace(/^# include: (\S+)$/gm, (_, file: string) => INCLUDED[file]!)
    .replace('__PRELOAD__', () => literal(options.preload))
    .replace('__LEVELS__', () => literal(levels))
    .replace('__HEAP__', () => String(options.heapBytes));
}
