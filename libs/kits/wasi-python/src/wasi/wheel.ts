/**
 * Reads wheels (zip archives, PEP 427) into trees of a guest. Their content is in one shared memory, so that threads do not
 * copy it.
 */
import { inflateRawSync } from 'node:zlib';
import type { Directory, TreeNode } from './file-tree.js';

const END = { signature: 0x06054b50, bytes: 22 };
const CENTRAL = { signature: 0x02014b50, bytes: 46 };
const LOCAL_BYTES = 30;
const MAX_COMMENT = 65_535;
/** Uncompressed bytes of one wheel. */
const MAX_BYTES = 64 * 1024 * 1024;

interface ZipEntry {
  path: string;
  isDeflated: boolean;
  packed: Buffer;
  size: number;
}

/** The files of a zip archive. @throws Error if it is damaged, encrypted, in another format or larger than 64 MiB */
function entriesOf(zip: Buffer): ZipEntry[] {
  const least = Math.max(0, zip.length - END.bytes - MAX_COMMENT);
  let end = zip.length - END.bytes;
  while (end >= least && zip.readUInt32LE(end) !== END.signature) end -= 1;
  if (end < least) throw new Error('it is not a zip archive');
  const entries: ZipEntry[] = [];
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left -= 1) {
    if (zip.readUInt32LE(at) !== CENTRAL.signature) throw new Error('its directory is damaged');
    const method = zip.readUInt16LE(at + 10);
    if ((method !== 0 && method !== 8) || (zip.readUInt16LE(at + 8) & 1) !== 0)
      throw new Error('it has an entry that is encrypted or compressed by a method other than deflate');
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((offset) => zip.readUInt16LE(at + offset));
    const name = at + CENTRAL.bytes;
    const local = zip.readUInt32LE(at + 42);
    const start = local + LOCAL_BYTES + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
    const path = zip.toString('utf8', name, name + nameLength!);
    const packed = zip.subarray(start, start + zip.readUInt32LE(at + 20));
    if (!path.endsWith('/')) entries.push({ path, isDeflated: method === 8, packed, size: zip.readUInt32LE(at + 24) });
    at = name + nameLength! + extraLength! + commentLength!;
  }
  return entries;
}

/**
 * The tree of a wheel, or of the folder `below` in it (such as `tzdata/zoneinfo/`), without its root.
 * @throws Error that names the fault of the file
 */
export function wheelTree(wheel: Buffer, below = ''): Directory {
  const entries = entriesOf(wheel).filter(({ path }) => path.startsWith(below));
  const total = entries.reduce((sum, { size }) => sum + size, 0);
  if (total > MAX_BYTES) throw new Error(`its files have ${total} bytes, at most ${MAX_BYTES} are allowed`);
  const root: Directory = new Map();
  addFiles(
    root,
    entries.map(({ path, isDeflated, packed, size }) => {
      const content = isDeflated ? inflateRawSync(packed, { maxOutputLength: Math.max(1, size) }) : packed;
      if (content.length !== size) throw new Error(`its file ${path} is damaged`);
      return [path.slice(below.length), content];
    }),
  );
  return root;
}

/** Adds files to a tree, with their content in one shared memory. @throws Error for a path that is not plain */
export function addFiles(root: Directory, files: readonly (readonly [path: string, bytes: Uint8Array])[]): void {
  const shared = new SharedArrayBuffer(files.reduce((sum, [, { length }]) => sum + length, 0));
  let at = 0;
  for (const [path, content] of files) {
    const bytes = new Uint8Array(shared, at, content.length);
    bytes.set(content);
    at += content.length;
    const parts = path.split('/');
    const name = parts.pop()!;
    folderOf(root, parts, path).set(name, { bytes, size: bytes.length });
  }
}

function folderOf(root: Directory, parts: readonly string[], path: string): Directory {
  let directory = root;
  for (const part of parts) {
    const next: TreeNode = directory.get(part) ?? new Map<string, TreeNode>();
    if (!(next instanceof Map) || part === '..' || part === '') throw new Error(`its path ${path} is not plain`);
    directory.set(part, next);
    directory = next;
  }
  return directory;
}
