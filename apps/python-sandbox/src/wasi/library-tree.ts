/** The standard library of an interpreter that does not embed it: read once from disk, served to guests from memory. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Directory } from './memory-tree.js';

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
  const library: Directory = new Map(found.map((name) => [name, read(join(path, name))]));
  return new Map([['usr', new Map([['local', new Map([['lib', library]])]])]]);
}

/** Files and folders; whatever else lies there (links, sockets) is left out. */
function read(folder: string): Directory {
  return new Map(
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile() || entry.isDirectory())
      .map((entry) => {
        const full = join(folder, entry.name);
        return [entry.name, entry.isDirectory() ? read(full) : sharedBytes(readFileSync(full))];
      }),
  );
}

function sharedBytes(bytes: Uint8Array): Uint8Array {
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
  shared.set(bytes);
  return shared;
}
