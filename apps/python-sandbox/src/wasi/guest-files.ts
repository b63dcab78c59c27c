/**
 * What a guest can do with names and descriptors: look around in a read-only tree and read. Nothing here writes, makes
 * or removes anything, for there is nothing behind it but the tree handed in.
 */
import { ERRNO, FILETYPE, OFLAG, RIGHT } from './abi.js';
import { type Descriptor, DescriptorTable, typeOf } from './descriptor-table.js';
import type { GuestView } from './guest-view.js';
import { RESULT_DEVICE, type TreeNode } from './memory-tree.js';

const FILE_RIGHTS = RIGHT.FD_READ | RIGHT.FD_SEEK | RIGHT.FD_TELL | RIGHT.FD_FILESTAT_GET;
const DIRECTORY_RIGHTS = RIGHT.PATH_OPEN | RIGHT.FD_READDIR | RIGHT.PATH_FILESTAT_GET | RIGHT.FD_FILESTAT_GET;
const DIRENT_BYTES = 24;

export class GuestFiles {
  /** Bytes of fd 0: the request. */
  stdin: Uint8Array = new Uint8Array(0);
  private stdinAt = 0;

  constructor(
    private readonly guest: GuestView,
    readonly fds: DescriptorTable,
  ) {}

  open(fd: number, path: number, length: number, oflags: number, rights: bigint, at: number): number {
    const node = this.resolve(fd, path, length);
    if (node === ERRNO.NOENT && oflags & OFLAG.CREAT) return ERRNO.ROFS;
    if (typeof node === 'number') return node;
    if (node === RESULT_DEVICE) return this.give({ kind: 'result' }, at);
    const isDirectory = node instanceof Map;
    // Refused here and not when the buffer is flushed, so that the error names the line that opened the file.
    if (oflags & (OFLAG.CREAT | OFLAG.TRUNC)) return ERRNO.ROFS;
    if ((rights & RIGHT.FD_WRITE) !== 0n && !isDirectory) return ERRNO.ROFS;
    if (oflags & OFLAG.DIRECTORY && !isDirectory) return ERRNO.NOTDIR;
    return this.give(isDirectory ? { kind: 'directory', node } : { kind: 'file', bytes: node, at: 0 }, at);
  }

  private give(descriptor: Descriptor, at: number): number {
    const fd = this.fds.open(descriptor);
    return fd === undefined ? ERRNO.MFILE : this.guest.putU32(at, fd);
  }

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
    return found?.kind === 'directory' ? ERRNO.ISDIR : ERRNO.BADF;
  }

  readAt(fd: number, iovs: number, count: number, offset: bigint, written: number): number {
    const found = this.fds.get(fd);
    if (found?.kind !== 'file') return ERRNO.BADF;
    if (offset < 0n) return ERRNO.INVAL;
    return this.guest.putU32(written, this.guest.scatter(found.bytes, Number(offset), iovs, count));
  }

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
      view.setUint8(20, typeOf(node));
      record.set(encoded, DIRENT_BYTES);
      const take = Math.min(record.length, end - at); // a full buffer means: ask again
      this.guest.put(record.subarray(0, take), at);
      at += take;
    }
    return this.guest.putU32(written, at - (buffer >>> 0));
  }

  /** `fd_prestat_get`: the length of a preopen's name. */
  preopen(fd: number, at: number): number {
    const path = this.preopenOf(fd);
    if (path === undefined) return ERRNO.BADF;
    this.guest.putU32(at, 0);
    return this.guest.putU32(at + 4, path.length);
  }

  preopenName(fd: number, at: number, length: number): number {
    const path = this.preopenOf(fd);
    if (path === undefined) return ERRNO.BADF;
    this.guest.put(new TextEncoder().encode(path).subarray(0, length), at);
    return ERRNO.SUCCESS;
  }

  private preopenOf(fd: number): string | undefined {
    const found = this.fds.get(fd);
    return found?.kind === 'directory' ? found.preopen : undefined;
  }

  stat(fd: number, at: number): number {
    const found = this.fds.get(fd);
    if (!found) return ERRNO.BADF;
    if (found.kind === 'file') return this.putStatOf(at, found.bytes);
    if (found.kind === 'directory') return this.putStatOf(at, found.node);
    return this.guest.putStat(at, FILETYPE.CHARACTER_DEVICE, 0);
  }

  statPath(fd: number, path: number, length: number, at: number): number {
    const node = this.resolve(fd, path, length);
    return typeof node === 'number' ? node : this.putStatOf(at, node);
  }

  private putStatOf(at: number, node: TreeNode): number {
    return this.guest.putStat(at, typeOf(node), node instanceof Uint8Array ? node.length : 0);
  }

  descriptorStat(fd: number, at: number): number {
    const found = this.fds.get(fd);
    if (!found) return ERRNO.BADF;
    if (found.kind === 'directory') {
      const below = FILE_RIGHTS | DIRECTORY_RIGHTS;
      return this.guest.putDescriptorStat(at, FILETYPE.DIRECTORY, DIRECTORY_RIGHTS, below);
    }
    if (found.kind === 'file') return this.guest.putDescriptorStat(at, FILETYPE.REGULAR_FILE, FILE_RIGHTS, 0n);
    const rights = found.kind === 'stdin' ? RIGHT.FD_READ : RIGHT.FD_WRITE;
    return this.guest.putDescriptorStat(at, FILETYPE.CHARACTER_DEVICE, rights, 0n);
  }

  /** There are no links: what exists is none. */
  readLink(fd: number, path: number, length: number): number {
    const node = this.resolve(fd, path, length);
    return typeof node === 'number' ? node : ERRNO.INVAL;
  }

  private resolve(fd: number, path: number, length: number): TreeNode | number {
    return this.fds.resolve(fd, this.guest.text(path, length));
  }
}
