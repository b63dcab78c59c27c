/** One interpreter in the process of the spec itself, without a timeout: the shortest way to the outcome of a program. */
import { readFileSync } from 'node:fs';
import { SystemClock } from '@toolfleet/base';
import { encodeRequest, classify, type RunRequest, type Outcome } from '../src/python/guest-protocol.js';
import { CapturedOutput } from '../src/wasi/captured-output.js';
import { buildTree, type Directory } from '../src/wasi/file-tree.js';
import { PAGES_PER_MB } from '../src/wasi/guest-memory.js';
import { codeModule } from '../src/wasi/instrument-module.js';
import { loadInterpreter } from '../src/wasi/interpreter.js';
import { restore, type Guest } from '../src/wasi/restore.js';
import { takeSnapshot, type Snapshot } from '../src/wasi/snapshot.js';
import { INTERPRETER } from './interpreter.js';

/** A request with 512 MiB. */
export function request(code: string, fields: Partial<RunRequest> = {}): RunRequest {
  return {
    code,
    args: null,
    stdin: '',
    files: {},
    strictness: 'standard',
    extraModules: [],
    session: null,
    keepSession: false,
    timeoutMs: 10_000,
    memoryLimitMb: 512,
    reportsProgress: false,
    ...fields,
  };
}

export interface Ran extends Outcome {
  stdout: string;
  stderr: string;
  guest: Guest;
}

export interface SpecGuest {
  code: WebAssembly.Module;
  snapshot: Snapshot;
  preopens: Readonly<Record<string, Directory>>;
  restore: (reuse?: Guest | null, limitMb?: number) => Guest;
  /** Runs a program in a fresh interpreter, or in one that has finished its run. */
  run: (code: string, fields?: Partial<RunRequest>, reuse?: Guest | null) => Ran;
}

/** Boots once; takes about a second. `marksWrites: false` simulates an interpreter without tracked writes. */
export function bootGuest({ marksWrites = true } = {}): SpecGuest {
  const clock = new SystemClock();
  const interpreter = loadInterpreter(INTERPRETER);
  const { boot, minPages, preopens } = interpreter;
  const code = marksWrites ? interpreter.code : unmarkedCode();
  const snapshot = takeSnapshot(boot, minPages, {
    clock,
    preopens,
    maxPages: 512 * PAGES_PER_MB,
    heapBytes: 4 * 1024 * 1024,
  });
  const output = new CapturedOutput(1024 * 1024);
  const make: SpecGuest['restore'] = (reuse = null, limitMb = 512) =>
    restore(code, snapshot, { clock, output, preopens, maxPages: limitMb * PAGES_PER_MB, reuse });
  return {
    code,
    snapshot,
    preopens,
    restore: make,
    run(source, fields, reuse = null) {
      const asked = request(source, fields);
      const guest = make(reuse, asked.memoryLimitMb);
      output.reset();
      const { end, frame } = guest.run(encodeRequest(asked), buildTree(asked.files));
      return { ...classify(end, frame), stdout: output.text(1), stderr: output.text(2), guest };
    },
  };
}

function unmarkedCode(): WebAssembly.Module {
  const { wasm } = codeModule(readFileSync(INTERPRETER.wasmPath), INTERPRETER.tableLimit, () => null);
  return new WebAssembly.Module(wasm);
}
