import type { Stream } from './captured-output.js';
import {
  copyOf,
  RESULT_DEVICE,
  RunFiles,
  toFile,
  TOOLS_DEVICE,
  type Directory,
  type FolderEntry,
  type FileNode,
  type TreeNode,
} from './file-tree.js';
import { ERRNO, FDFLAG_APPEND, FILETYPE, OFLAG, RIGHT, SET_TIME, type GuestMemory } from './guest-memory.js';

/** The folder of a run: its working directory, with the files of its caller. */
const RUN_FOLDER = '/data';
/** Packages that the run can import. Nothing can write there. */
export const PACKAGES_FOLDER = '/packages';
/** Folders that a run may write to. Each run begins with new ones. */
const WRITABLE: readonly string[] = [RUN_FOLDER, '/tmp'];

export type Descriptor =
  | { kind: 'stdin' }
  | { kind: 'output'; stream: Stream }
  | { kind: 'result' }
  | { kind: 'tools' }
  | { kind: 'file'; file: FileNode; at: number; canWrite: boolean; appends: boolean }
  | { kind: 'directory'; node: Directory; preopen?: string; canWrite: boolean };

const MAX_DESCRIPTORS = 64;
/** Maximum length of a path. */
const MAX_PATH = 4_096;
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
    const writable = Object.fromEntries(WRITABLE.map((path) => [path, new Map()]));
    for (const [path, node] of Object.entries({ '/dev': device, ...writable, ...preopens })) {
      this.table.set(this.table.size, { kind: 'directory', node, preopen: path, canWrite: path in writable });
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

  /** The directory or file of a descriptor. */
  node(fd: number): Directory | FileNode | undefined {
    const found = this.table.get(fd);
    return found?.kind === 'file' ? found.file : this.directory(fd);
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

  /** The node at a path below a directory, or an errno. */
  resolve(fd: number, path: string): TreeNode | number {
    const entry = this.locate(fd, path);
    return typeof entry === 'number' ? entry : (entry.node ?? ERRNO.NOENT);
  }

  /**
   * The entry that a path names, below a directory; the last part may be missing there. Or an errno. `..` cannot leave the preopen, and
   * there are no links.
   */
  locate(fd: number, path: string): FolderEntry | number {
    const start = this.directory(fd);
    if (!start) return ERRNO.BADF;
    if (path.length > MAX_PATH) return ERRNO.NAMETOOLONG;
    const parents: Directory[] = [];
    let entry: FolderEntry = { parent: start, name: '.', node: start };
    for (const part of path.split('/')) {
      if (part === '' || part === '.') continue;
      const { node }: FolderEntry = entry;
      if (node === undefined) return ERRNO.NOENT;
      if (part === '..') {
        const up = parents.pop();
        if (up === undefined) return ERRNO.NOTCAPABLE;
        entry = { parent: up, name: '.', node: up };
        continue;
      }
      if (!(node instanceof Map)) return ERRNO.NOTDIR;
      parents.push(node);
      entry = { parent: node, name: part, node: node.get(part) };
    }
    return entry;
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
/** Two changes of a directory get times that a float of seconds tells apart. */
const LEAST_STEP_NS = 1_000n;

/** The host of the files of a run. */
interface FileHost {
  /** Nanoseconds since the epoch. */
  now: () => bigint;
  /** Charges bytes to the memory of the run; false if it may not have so many. */
  charge: (bytes: number) => boolean;
}

/** The file operations of WASI. Each returns an errno. The host has no files behind them: all of it is in memory, and gone with the run. */
export class GuestFiles {
  /** Bytes of fd 0: the request. */
  stdin: Uint8Array = new Uint8Array(0);
  private stdinAt = 0;
  /** Reads from `/dev/tools`, at most so many bytes; undefined in runs that cannot call tools. */
  readTools: ((most: number) => Uint8Array) | undefined;
  private readonly written: RunFiles;
  /** Inodes, and times of modification in the folders of the run. Everything else is as old as the epoch. */
  private readonly inodes = new Map<object, number>();
  private readonly times = new Map<object, bigint>();
  private lastNs = 0n;

  constructor(
    private readonly guest: GuestMemory,
    readonly fds: DescriptorTable,
    private readonly host: FileHost,
  ) {
    this.written = new RunFiles(host.charge);
  }

  /** Gives the run its folder, with the files of its caller, and its packages. */
  mount(folder: Directory, packages: Directory): void {
    this.fds.mount(RUN_FOLDER, folder);
    this.fds.mount(PACKAGES_FOLDER, packages);
    const given = this.written.chargeGiven(folder);
    this.touch(folder, ...given);
  }

  /** `path_open`: writes the new descriptor to `at`. ROFS for anything that would create or change a file outside the folders of the run. */
  open(fd: number, path: number, length: number, [oflags, rights, fdflags]: OpenFlags, at: number): number {
    const entry = this.locate(fd, path, length);
    if (typeof entry === 'number') return entry;
    const { node } = entry;
    if (node === RESULT_DEVICE) return this.assign({ kind: 'result' }, at);
    if (node === TOOLS_DEVICE) return this.readTools ? this.assign({ kind: 'tools' }, at) : ERRNO.NOENT;
    if (node === undefined && !(oflags & OFLAG.CREAT)) return ERRNO.NOENT;
    if (node !== undefined && oflags & OFLAG.CREAT && oflags & OFLAG.EXCL) return ERRNO.EXIST;
    const isWritable = this.isWritable(fd);
    const changes = (oflags & (OFLAG.CREAT | OFLAG.TRUNC)) !== 0 || (rights & RIGHT.FD_WRITE) !== 0n;
    // Refuse at open rather than at the flush, so that the error points to the line that opened the file.
    if (changes && !isWritable && !(node instanceof Map && oflags === 0)) return ERRNO.ROFS;
    if (node instanceof Map) {
      return changes ? ERRNO.ISDIR : this.assign({ kind: 'directory', node, canWrite: isWritable }, at);
    }
    if (oflags & OFLAG.DIRECTORY) return ERRNO.NOTDIR;
    const file = node ?? toFile(new Uint8Array(0));
    const errno =
      node === undefined ? this.add(entry, file) : oflags & OFLAG.TRUNC ? this.resized(file, 0) : ERRNO.SUCCESS;
    if (errno !== ERRNO.SUCCESS) return errno;
    const canWrite = isWritable && (rights & RIGHT.FD_WRITE) !== 0n;
    return this.assign({ kind: 'file', file, at: 0, canWrite, appends: (fdflags & FDFLAG_APPEND) !== 0 }, at);
  }

  private assign(descriptor: Descriptor, at: number): number {
    const fd = this.fds.open(descriptor);
    if (fd === undefined) return ERRNO.MFILE;
    if (descriptor.kind === 'file') descriptor.file.opens = (descriptor.file.opens ?? 0) + 1;
    return this.guest.putU32(at, fd);
  }

  /** `fd_close`. */
  close(fd: number): number {
    const found = this.fds.get(fd);
    if (found?.kind === 'file') {
      found.file.opens! -= 1;
      this.written.closed(found.file);
    }
    return this.fds.close(fd);
  }

  /** `fd_read` from stdin or a file: fills the guest's buffers and writes the number of bytes to `written`. */
  read(fd: number, iovs: number, count: number, written: number): number {
    const found = this.fds.get(fd);
    if (found?.kind === 'stdin') {
      const rest = this.stdin.subarray(this.stdinAt);
      const taken = this.scatter(rest, iovs, count);
      this.stdinAt += taken;
      return this.guest.putU32(written, taken);
    }
    if (found?.kind === 'file') {
      const taken = this.scatterFile(found.file, found.at, iovs, count);
      found.at += taken;
      return this.guest.putU32(written, taken);
    }
    if (found?.kind === 'tools' && this.readTools) {
      const most = this.guest.capacity(iovs, count);
      const taken = most === 0 ? 0 : this.scatter(this.readTools(most), iovs, count);
      return this.guest.putU32(written, taken);
    }
    return found?.kind === 'directory' ? ERRNO.ISDIR : ERRNO.BADF;
  }

  /** `fd_pread`: reads a file at an offset without moving its position. */
  readAt(fd: number, iovs: number, count: number, offset: bigint, written: number): number {
    const found = this.fds.get(fd);
    if (found?.kind !== 'file') return ERRNO.BADF;
    if (offset < 0n) return ERRNO.INVAL;
    return this.guest.putU32(written, this.scatterFile(found.file, Number(offset), iovs, count));
  }

  private scatter(source: Uint8Array, iovs: number, count: number): number {
    return this.guest.scatter(source.length, iovs, count, (target, from) =>
      target.set(source.subarray(from, from + target.length)),
    );
  }

  private scatterFile(file: FileNode, at: number, iovs: number, count: number): number {
    return this.guest.scatter(file.size - at, iovs, count, (target, from) => copyOf(file, at + from, target));
  }

  /** `fd_write` and, with an offset, `fd_pwrite` to a file. */
  write(fd: number, iovs: number, count: number, written: number, offset?: bigint): number {
    const found = this.fds.get(fd);
    if (!found) return ERRNO.BADF;
    if (found.kind !== 'file' || !found.canWrite) return ERRNO.ROFS;
    if (offset !== undefined && offset < 0n) return ERRNO.INVAL;
    const { file } = found;
    let at = offset === undefined ? (found.appends ? file.size : found.at) : Number(offset);
    let errno: number = ERRNO.SUCCESS;
    const total = this.guest.gather(iovs, count, (bytes) => {
      if (errno === ERRNO.SUCCESS) errno = this.written.write(file, at, bytes);
      at += bytes.length;
    });
    if (errno !== ERRNO.SUCCESS) return errno;
    if (offset === undefined) found.at = at;
    this.touch(file);
    return this.guest.putU32(written, total);
  }

  /** `fd_filestat_set_size`; with `isLeast`, `fd_allocate`: it never shrinks a file. */
  setSize(fd: number, size: bigint, isLeast = false): number {
    const found = this.fds.get(fd);
    if (found?.kind !== 'file') return ERRNO.BADF;
    if (!found.canWrite) return ERRNO.ROFS;
    if (size < 0n) return ERRNO.INVAL;
    return isLeast && Number(size) <= found.file.size ? ERRNO.SUCCESS : this.resized(found.file, Number(size));
  }

  private resized(file: FileNode, size: number): number {
    this.touch(file);
    return this.written.resize(file, size);
  }

  private add(entry: FolderEntry, node: FileNode | Directory): number {
    const errno = this.written.add(entry, node);
    if (errno === ERRNO.SUCCESS) this.touch(entry.parent, node);
    return errno;
  }

  /** `path_create_directory`. */
  makeDirectory(fd: number, path: number, length: number): number {
    return this.change(fd, path, length, (entry) => (entry.node ? ERRNO.EXIST : this.add(entry, new Map())));
  }

  /** `path_unlink_file` and `path_remove_directory`. */
  remove(fd: number, path: number, length: number, kind: 'file' | 'directory'): number {
    return this.change(fd, path, length, (entry) => this.written.remove(entry, kind));
  }

  /** `path_rename`. */
  rename(fd: number, path: number, length: number, toFd: number, toPath: number, toLength: number): number {
    return this.change(fd, path, length, (from) =>
      this.change(toFd, toPath, toLength, (to) => this.written.rename(from, to)),
    );
  }

  /** Changes an entry of the folders of the run. */
  private change(fd: number, path: number, length: number, act: (entry: FolderEntry) => number): number {
    const entry = this.locate(fd, path, length);
    if (typeof entry === 'number') return entry;
    if (!this.isWritable(fd)) return ERRNO.ROFS;
    // A preopen itself, or a path that ends with `..`.
    if (entry.name === '.') return ERRNO.INVAL;
    const errno = act(entry);
    if (errno === ERRNO.SUCCESS) this.touch(entry.parent);
    return errno;
  }

  /** `path_filestat_set_times` and `fd_filestat_set_times`: the time of modification. */
  setTimes(node: TreeNode | number | undefined, fd: number, timeNs: bigint, flags: number): number {
    if (typeof node === 'number') return node;
    if (typeof node !== 'object') return ERRNO.BADF;
    if (!this.isWritable(fd)) return ERRNO.ROFS;
    if (flags & SET_TIME.MODIFIED_NOW) this.touch(node);
    if (flags & SET_TIME.MODIFIED) this.times.set(node, timeNs);
    return ERRNO.SUCCESS;
  }

  private touch(...nodes: object[]): void {
    const now = this.host.now();
    this.lastNs = now > this.lastNs ? now : this.lastNs + LEAST_STEP_NS;
    for (const node of nodes) this.times.set(node, this.lastNs);
  }

  private isWritable(fd: number): boolean {
    const found = this.fds.get(fd);
    return (found?.kind === 'directory' || found?.kind === 'file') && found.canWrite;
  }

  /** `fd_seek` on a file, from the start (`whence` 0), the position (1) or the end (2). */
  seek(fd: number, offset: bigint, whence: number, at: number): number {
    const found = this.fds.get(fd);
    if (!found) return ERRNO.BADF;
    if (found.kind !== 'file') return ERRNO.SPIPE;
    const base = whence === 0 ? 0 : whence === 1 ? found.at : found.file.size;
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
      view.setBigUint64(8, BigInt(this.inodeOf(node)), true);
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
    if (found.kind === 'file') return this.putNodeStat(at, found.file);
    if (found.kind === 'directory') return this.putNodeStat(at, found.node);
    return this.guest.putStat(at, { type: FILETYPE.CHARACTER_DEVICE, inode: fd, size: 0, timeNs: 0n });
  }

  /** `path_filestat_get`. */
  statPath(fd: number, path: number, length: number, at: number): number {
    const node = this.resolve(fd, path, length);
    return typeof node === 'number' ? node : this.putNodeStat(at, node);
  }

  private putNodeStat(at: number, node: TreeNode): number {
    const isFile = typeof node === 'object' && !(node instanceof Map);
    return this.guest.putStat(at, {
      type: fileType(node),
      inode: this.inodeOf(node),
      size: isFile ? node.size : 0,
      timeNs: (typeof node === 'object' ? this.times.get(node) : undefined) ?? 0n,
    });
  }

  /** Numbers from 1 in the order in which the guest sees nodes; numbers of devices do not matter. */
  private inodeOf(node: TreeNode): number {
    if (typeof node !== 'object') return 1;
    const inode = this.inodes.get(node) ?? this.inodes.size + 2;
    this.inodes.set(node, inode);
    return inode;
  }

  /** `fd_fdstat_get`: type and rights. */
  descriptorStat(fd: number, at: number): number {
    const found = this.fds.get(fd);
    if (!found) return ERRNO.BADF;
    if (found.kind === 'directory') {
      const [own, below] = found.canWrite ? [RIGHT.ALL, RIGHT.ALL] : [DIRECTORY_RIGHTS, FILE_RIGHTS | DIRECTORY_RIGHTS];
      return this.guest.putDescriptorStat(at, FILETYPE.DIRECTORY, own, below);
    }
    if (found.kind === 'file')
      return this.guest.putDescriptorStat(at, FILETYPE.REGULAR_FILE, found.canWrite ? RIGHT.ALL : FILE_RIGHTS, 0n);
    const rights =
      found.kind === 'tools' ? RIGHT.FD_READ | RIGHT.FD_WRITE : found.kind === 'stdin' ? RIGHT.FD_READ : RIGHT.FD_WRITE;
    return this.guest.putDescriptorStat(at, FILETYPE.CHARACTER_DEVICE, rights, 0n);
  }

  /** `path_readlink`: INVAL for every existing path, because there are no links. */
  readLink(fd: number, path: number, length: number): number {
    const node = this.resolve(fd, path, length);
    return typeof node === 'number' ? node : ERRNO.INVAL;
  }

  resolve(fd: number, path: number, length: number): TreeNode | number {
    return this.fds.resolve(fd, this.guest.text(path, length));
  }

  private locate(fd: number, path: number, length: number): FolderEntry | number {
    return this.fds.locate(fd, this.guest.text(path, length));
  }
}

/** The flags of `path_open`: `oflags`, the rights that it asks for, and `fdflags`. */
type OpenFlags = readonly [oflags: number, rights: bigint, fdflags: number];
