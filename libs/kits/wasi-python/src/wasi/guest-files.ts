import type { Stream } from './captured-output.js';
import { ERRNO, FILETYPE, OFLAG, RIGHT, type GuestMemory } from './guest-memory.js';

/**
 * The complete file system of a guest: nested Maps with bytes as leaves. The guest can reach only this tree, and
 * cannot change it, because no import of the host writes to it.
 */
export type Directory = Map<string, TreeNode>;
/** `/dev/result`: a bounded buffer of the host, separate from the guest's stdout. */
const RESULT_DEVICE = Symbol('/dev/result');
/** `/dev/tools`, for programs that call tools. */
const TOOLS_DEVICE = Symbol('/dev/tools');
type TreeNode = Directory | Uint8Array | typeof RESULT_DEVICE | typeof TOOLS_DEVICE;

/** Longest path of a data file. */
const MAX_NAME = 255;

/** Content of a data file as a caller sends it: text, or bytes as base64. */
export type FileContent = string | { base64: string };

/**
 * Builds the tree of the data files of a call; `a/b.txt` creates a directory `a`.
 * @throws Error that names the file if its name is not a plain relative path or conflicts with another
 */
export function buildTree(files: Readonly<Record<string, FileContent>>): Directory {
  const root: Directory = new Map();
  for (const [path, content] of Object.entries(files)) {
    const parts = path.split('/');
    const bad = parts.some((part) => part === '' || part === '.' || part === '..');
    if (bad || path.length > MAX_NAME || path.includes('\0')) {
      throw new Error(`file name ${JSON.stringify(path.slice(0, MAX_NAME))} is not a plain relative path`);
    }
    let directory = root;
    for (const part of parts.slice(0, -1)) {
      const next = directory.get(part) ?? new Map<string, TreeNode>();
      if (!(next instanceof Map)) throw new Error(`file name ${JSON.stringify(path)} uses a file as a directory`);
      directory.set(part, next);
      directory = next;
    }
    const leaf = parts.at(-1)!;
    if (directory.has(leaf)) throw new Error(`file name ${JSON.stringify(path)} is used twice`);
    directory.set(leaf, toBytes(content));
  }
  return root;
}

function toBytes(content: FileContent): Uint8Array {
  return typeof content === 'string' ? new TextEncoder().encode(content) : Buffer.from(content.base64, 'base64');
}

export type Descriptor =
  | { kind: 'stdin' }
  | { kind: 'output'; stream: Stream }
  | { kind: 'result' }
  | { kind: 'tools' }
  | { kind: 'file'; bytes: Uint8Array; at: number }
  | { kind: 'directory'; node: Directory; preopen?: string };

const MAX_DESCRIPTORS = 64;
/** Reserved for the result device, so that a run that exhausted its descriptors can still reply. */
const RESULT_DESCRIPTORS = 8;

/** The guest's own table of file descriptors, unrelated to the host's. */
export class DescriptorTable {
  private readonly table: Map<number, Descriptor>;
  private readonly firstFree: number;

  constructor(preopens: Readonly<Record<string, Directory>>) {
    this.table = new Map<number, Descriptor>([
      [0, { kind: 'stdin' }],
      [1, { kind: 'output', stream: 1 }],
      [2, { kind: 'output', stream: 2 }],
    ]);
    const device: Directory = new Map<string, TreeNode>([
      ['result', RESULT_DEVICE],
      ['tools', TOOLS_DEVICE],
    ]);
    // Numbered from 3 without gaps, because libc scans until the first BADF.
    for (const [path, node] of Object.entries({ '/dev': device, ...preopens })) {
      this.table.set(this.table.size, { kind: 'directory', node, preopen: path });
    }
    this.firstFree = this.table.size;
  }

  get(fd: number): Descriptor | undefined {
    return this.table.get(fd);
  }

  directory(fd: number): Directory | undefined {
    const found = this.table.get(fd);
    return found?.kind === 'directory' ? found.node : undefined;
  }

  close(fd: number): number {
    return this.table.delete(fd) ? ERRNO.SUCCESS : ERRNO.BADF;
  }

  /** The new descriptor, or undefined if the table is full. */
  open(descriptor: Descriptor): number | undefined {
    const cap = descriptor.kind === 'result' ? MAX_DESCRIPTORS + RESULT_DESCRIPTORS : MAX_DESCRIPTORS;
    if (this.table.size >= cap) return undefined;
    let fd = this.firstFree;
    while (this.table.has(fd)) fd += 1;
    this.table.set(fd, descriptor);
    return fd;
  }

  /** Replaces the content of a preopened directory. */
  mount(path: string, node: Directory): void {
    for (const found of this.table.values()) {
      if (found.kind === 'directory' && found.preopen === path) found.node = node;
    }
  }

  /** The node at a path below a directory, or an errno. `..` cannot leave the preopen, and there are no links. */
  resolve(fd: number, path: string): TreeNode | number {
    const start = this.directory(fd);
    if (!start) return ERRNO.BADF;
    let node: TreeNode = start;
    const parents: TreeNode[] = [];
    for (const part of path.split('/')) {
      if (part === '' || part === '.') continue;
      if (part === '..') {
        const up = parents.pop();
        if (up === undefined) return ERRNO.NOTCAPABLE;
        node = up;
        continue;
      }
      if (!(node instanceof Map)) return ERRNO.NOTDIR;
      const child: TreeNode | undefined = node.get(part);
      if (child === undefined) return ERRNO.NOENT;
      parents.push(node);
      node = child;
    }
    return node;
  }
}

/** WASI file type of a node. */
function fileType(node: TreeNode): number {
  if (node === RESULT_DEVICE || node === TOOLS_DEVICE) return FILETYPE.CHARACTER_DEVICE;
  return node instanceof Map ? FILETYPE.DIRECTORY : FILETYPE.REGULAR_FILE;
}

const FILE_RIGHTS = RIGHT.FD_READ | RIGHT.FD_SEEK | RIGHT.FD_TELL | RIGHT.FD_FILESTAT_GET;
const DIRECTORY_RIGHTS = RIGHT.PATH_OPEN | RIGHT.FD_READDIR | RIGHT.PATH_FILESTAT_GET | RIGHT.FD_FILESTAT_GET;
const DIRENT_BYTES = 24;

/**
 * The file operations of WASI on a read-only tree: open, read, seek, stat and list. Each returns an errno. Nothing here
 * writes, creates or removes anything; the host has no files behind it.
 */
export class GuestFiles {
  /** Bytes of fd 0: the request. */
  stdin: Uint8Array = new Uint8Array(0);
  private stdinAt = 0;
  /** Reads from `/dev/tools`, at most so many bytes; undefined in runs that cannot call tools. */
  readTools: ((most: number) => Uint8Array) | undefined;

  constructor(
    private readonly guest: GuestMemory,
    readonly fds: DescriptorTable,
  ) {}

  /** `path_open`: writes the new descriptor to `at`. ROFS for anything that could create or change a file. */
  open(fd: number, path: number, length: number, oflags: number, rights: bigint, at: number): number {
    const node = this.resolve(fd, path, length);
    if (node === ERRNO.NOENT && oflags & OFLAG.CREAT) return ERRNO.ROFS;
    if (typeof node === 'number') return node;
    if (node === RESULT_DEVICE) return this.assign({ kind: 'result' }, at);
    if (node === TOOLS_DEVICE) return this.readTools ? this.assign({ kind: 'tools' }, at) : ERRNO.NOENT;
    const isDirectory = node instanceof Map;
    // Refuse at open rather than at the flush, so that the error points to the line that opened the file.
    if (oflags & (OFLAG.CREAT | OFLAG.TRUNC)) return ERRNO.ROFS;
    if ((rights & RIGHT.FD_WRITE) !== 0n && !isDirectory) return ERRNO.ROFS;
    if (oflags & OFLAG.DIRECTORY && !isDirectory) return ERRNO.NOTDIR;
    return this.assign(isDirectory ? { kind: 'directory', node } : { kind: 'file', bytes: node, at: 0 }, at);
  }

  private assign(descriptor: Descriptor, at: number): number {
    const fd = this.fds.open(descriptor);
    return fd === undefined ? ERRNO.MFILE : this.guest.putU32(at, fd);
  }

  /** `fd_read` from stdin or a file: fills the guest's buffers and writes the number of bytes to `written`. */
  read(fd: number, iovs: number, count: number, written: number): number {
    const found = this.fds.get(fd);
    if (found?.kind === 'stdin') {
      const taken = this.guest.scatter(this.stdin, this.stdinAt, iovs, count);
      this.stdinAt += taken;
      return this.guest.putU32(written, taken);
    }
    if (found?.kind === 'file') {
      const taken = this.guest.scatter(found.bytes, found.at, iovs, count);
      found.at += taken;
      return this.guest.putU32(written, taken);
    }
    if (found?.kind === 'tools' && this.readTools) {
      const most = this.guest.capacity(iovs, count);
      const taken = most === 0 ? 0 : this.guest.scatter(this.readTools(most), 0, iovs, count);
      return this.guest.putU32(written, taken);
    }
    return found?.kind === 'directory' ? ERRNO.ISDIR : ERRNO.BADF;
  }

  /** `fd_pread`: reads a file at an offset without moving its position. */
  readAt(fd: number, iovs: number, count: number, offset: bigint, written: number): number {
    const found = this.fds.get(fd);
    if (found?.kind !== 'file') return ERRNO.BADF;
    if (offset < 0n) return ERRNO.INVAL;
    return this.guest.putU32(written, this.guest.scatter(found.bytes, Number(offset), iovs, count));
  }

  /** `fd_seek` on a file, from the start (`whence` 0), the position (1) or the end (2). */
  seek(fd: number, offset: bigint, whence: number, at: number): number {
    const found = this.fds.get(fd);
    if (!found) return ERRNO.BADF;
    if (found.kind !== 'file') return ERRNO.SPIPE;
    const base = whence === 0 ? 0 : whence === 1 ? found.at : found.bytes.length;
    const target = base + Number(offset);
    if (target < 0) return ERRNO.INVAL;
    found.at = target;
    return this.guest.putU64(at, BigInt(target));
  }

  /** `fd_readdir`: writes entries from `cookie` on, the last one cut if the buffer is full. */
  readDirectory(fd: number, buffer: number, length: number, cookie: bigint, written: number): number {
    const directory = this.fds.directory(fd);
    if (!directory) return ERRNO.BADF;
    const entries: [string, TreeNode][] = [['.', directory], ['..', directory], ...directory];
    let at = buffer >>> 0;
    const end = at + (length >>> 0);
    for (let i = Number(cookie); i < entries.length && at < end; i++) {
      const [entryName, node] = entries[i]!;
      const encoded = new TextEncoder().encode(entryName);
      const record = new Uint8Array(DIRENT_BYTES + encoded.length);
      const view = new DataView(record.buffer);
      view.setBigUint64(0, BigInt(i + 1), true);
      view.setBigUint64(8, BigInt(i + 1), true);
      view.setUint32(16, encoded.length, true);
      view.setUint8(20, fileType(node));
      record.set(encoded, DIRENT_BYTES);
      const take = Math.min(record.length, end - at); // after a full buffer the guest asks again
      this.guest.put(record.subarray(0, take), at);
      at += take;
    }
    return this.guest.putU32(written, at - (buffer >>> 0));
  }

  /** `fd_prestat_get`: the length of a preopen's name. */
  preopen(fd: number, at: number): number {
    const path = this.preopenPath(fd);
    if (path === undefined) return ERRNO.BADF;
    this.guest.putU32(at, 0);
    return this.guest.putU32(at + 4, path.length);
  }

  /** `fd_prestat_dir_name`: writes the path of a preopen. */
  preopenName(fd: number, at: number, length: number): number {
    const path = this.preopenPath(fd);
    if (path === undefined) return ERRNO.BADF;
    this.guest.put(new TextEncoder().encode(path).subarray(0, length), at);
    return ERRNO.SUCCESS;
  }

  private preopenPath(fd: number): string | undefined {
    const found = this.fds.get(fd);
    return found?.kind === 'directory' ? found.preopen : undefined;
  }

  /** `fd_filestat_get`. */
  stat(fd: number, at: number): number {
    const found = this.fds.get(fd);
    if (!found) return ERRNO.BADF;
    if (found.kind === 'file') return this.putNodeStat(at, found.bytes);
    if (found.kind === 'directory') return this.putNodeStat(at, found.node);
    return this.guest.putStat(at, FILETYPE.CHARACTER_DEVICE, 0);
  }

  /** `path_filestat_get`. */
  statPath(fd: number, path: number, length: number, at: number): number {
    const node = this.resolve(fd, path, length);
    return typeof node === 'number' ? node : this.putNodeStat(at, node);
  }

  private putNodeStat(at: number, node: TreeNode): number {
    return this.guest.putStat(at, fileType(node), node instanceof Uint8Array ? node.length : 0);
  }

  /** `fd_fdstat_get`: type and rights, never writing to files. */
  descriptorStat(fd: number, at: number): number {
    const found = this.fds.get(fd);
    if (!found) return ERRNO.BADF;
    if (found.kind === 'directory') {
      const below = FILE_RIGHTS | DIRECTORY_RIGHTS;
      return this.guest.putDescriptorStat(at, FILETYPE.DIRECTORY, DIRECTORY_RIGHTS, below);
    }
    if (found.kind === 'file') return this.guest.putDescriptorStat(at, FILETYPE.REGULAR_FILE, FILE_RIGHTS, 0n);
    const rights =
      found.kind === 'tools' ? RIGHT.FD_READ | RIGHT.FD_WRITE : found.kind === 'stdin' ? RIGHT.FD_READ : RIGHT.FD_WRITE;
    return this.guest.putDescriptorStat(at, FILETYPE.CHARACTER_DEVICE, rights, 0n);
  }

  /** `path_readlink`: INVAL for every existing path, because there are no links. */
  readLink(fd: number, path: number, length: number): number {
    const node = this.resolve(fd, path, length);
    return typeof node === 'number' ? node : ERRNO.INVAL;
  }

  private resolve(fd: number, path: number, length: number): TreeNode | number {
    return this.fds.resolve(fd, this.guest.text(path, length));
  }
}
