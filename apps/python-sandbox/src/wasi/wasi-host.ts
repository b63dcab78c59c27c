/**
 * The whole world of a guest: `wasi_snapshot_preview1` over an in-memory read-only tree and an own table of
 * descriptors. A guest can do exactly what these imports do. This file imports no fs, net or child_process (a test
 * holds it to that): what is not in the tree handed in cannot be reached.
 */
import type { Clock } from '@toolfleet/resilience/clock';
import { ERRNO, FILETYPE, OFLAG, RIGHT } from './abi.js';
import { type CapturedOutput, HostStop, type Stream } from './captured-output.js';
import { type Descriptor, DescriptorTable, typeOf } from './descriptor-table.js';
import { GuestView } from './guest-view.js';
import { type Directory, RESULT_DEVICE, type TreeNode } from './memory-tree.js';

/** The guest called `proc_exit`. */
export class GuestExit extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`exit ${code}`);
    this.code = code;
  }
}

export interface HostOptions {
  clock: Clock;
  output: CapturedOutput;
  args?: readonly string[];
  /**
   * Directories by guest path. The guest asks for them once, at boot: a restored one needs the same names in the same
   * order, while their content may differ.
   */
  preopens: Readonly<Record<string, Directory>>;
  /** Sees every write to stdout and stderr first; true means it took the bytes. */
  onWrite?: (stream: Stream, bytes: Uint8Array) => boolean;
}

/** Most bytes of the result frame. */
export const RESULT_CAP = 4 * 1024 * 1024;
/** `crypto.getRandomValues` fills no more at once. */
const RANDOM_CHUNK = 65_536;
const CLOCK_REALTIME = 0;
const CLOCK_RESOLUTION_NS = 1_000n;
const SUBSCRIPTION_BYTES = 48;
const FILE_RIGHTS = RIGHT.FD_READ | RIGHT.FD_SEEK | RIGHT.FD_TELL | RIGHT.FD_FILESTAT_GET;
const DIRECTORY_RIGHTS = RIGHT.PATH_OPEN | RIGHT.FD_READDIR | RIGHT.PATH_FILESTAT_GET | RIGHT.FD_FILESTAT_GET;

const ok = () => ERRNO.SUCCESS;
const readOnly = () => ERRNO.ROFS;
const noSockets = () => ERRNO.NOSYS;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

export class WasiHost {
  /** Bytes of fd 0: the request. */
  stdin: Uint8Array = new Uint8Array(0);
  private stdinAt = 0;
  private readonly args: Uint8Array[];
  private readonly guest: GuestView;
  private readonly fds: DescriptorTable;
  private readonly resultParts: Uint8Array[] = [];
  private resultLength = 0;

  constructor(private readonly options: HostOptions) {
    this.args = (options.args ?? []).map((arg) => new TextEncoder().encode(`${arg}\0`));
    this.fds = new DescriptorTable(options.preopens);
    this.guest = new GuestView((pages) => {
      options.output.pages = pages;
    });
  }

  /** The memory of the instance that uses these imports. */
  bind(memory: WebAssembly.Memory): void {
    this.guest.bind(memory);
  }

  /** Replaces the content of a preopened directory, before the run. */
  mount(path: string, node: Directory): void {
    this.fds.mount(path, node);
  }

  /** What was written to `/dev/result`, untrusted; null when nothing was. */
  result(): Uint8Array | null {
    return this.resultLength === 0 ? null : Buffer.concat(this.resultParts);
  }

  private resolve(fd: number, path: number, length: number): TreeNode | number {
    return this.fds.resolve(fd, this.guest.text(path, length));
  }

  private putStatOf(at: number, node: TreeNode): number {
    return this.guest.putStat(at, typeOf(node), node instanceof Uint8Array ? node.length : 0);
  }

  private open(descriptor: Descriptor, at: number): number {
    const fd = this.fds.open(descriptor);
    return fd === undefined ? ERRNO.MFILE : this.guest.putU32(at, fd);
  }

  private writeTo(descriptor: Descriptor & { kind: 'output' | 'result' }, bytes: Uint8Array): void {
    if (descriptor.kind === 'output') {
      if (!this.options.onWrite?.(descriptor.stream, bytes)) this.options.output.write(descriptor.stream, bytes);
      return;
    }
    this.resultLength += bytes.length;
    if (this.resultLength > RESULT_CAP) throw new HostStop('output_limit');
    this.resultParts.push(bytes.slice());
  }

  private nanoseconds(id: number): bigint {
    return id === CLOCK_REALTIME
      ? BigInt(this.options.clock.now()) * 1_000_000n
      : BigInt(Math.round(this.options.clock.monotonic() * 1_000)) * 1_000n;
  }

  /** `time.sleep`: clock subscriptions only. The wait ends with the thread. */
  private poll(subscriptions: number, events: number, count: number, written: number): number {
    let shortest: bigint | undefined;
    let userdata = 0n;
    for (let i = 0; i < count; i++) {
      const at = subscriptions + SUBSCRIPTION_BYTES * i;
      if (this.guest.dv.getUint8(at + 8) !== 0) return ERRNO.NOTSUP;
      let wait = this.guest.dv.getBigUint64(at + 24, true);
      const absolute = (this.guest.dv.getUint16(at + 40, true) & 1) === 1;
      if (absolute) {
        const now = this.nanoseconds(this.guest.dv.getUint32(at + 16, true));
        wait = wait > now ? wait - now : 0n;
      }
      if (shortest === undefined || wait < shortest) {
        shortest = wait;
        userdata = this.guest.dv.getBigUint64(at, true);
      }
    }
    if (shortest === undefined) return ERRNO.INVAL;
    if (shortest > 0n) Atomics.wait(sleeper, 0, 0, Math.min(Number(shortest) / 1e6, 1e9));
    this.guest.putU64(events, userdata);
    this.guest.dv.setUint16(events + 8, 0, true);
    this.guest.dv.setUint8(events + 10, 0);
    return this.guest.putU32(written, 1);
  }

  private readDirectory(fd: number, buffer: number, length: number, cookie: bigint, written: number): number {
    const directory = this.fds.directory(fd);
    if (!directory) return ERRNO.BADF;
    const entries: [string, TreeNode][] = [['.', directory], ['..', directory], ...directory];
    let at = buffer;
    const end = buffer + length;
    for (let i = Number(cookie); i < entries.length && at < end; i++) {
      const [entryName, node] = entries[i]!;
      const encoded = new TextEncoder().encode(entryName);
      const record = new Uint8Array(24 + encoded.length);
      const view = new DataView(record.buffer);
      view.setBigUint64(0, BigInt(i + 1), true);
      view.setBigUint64(8, BigInt(i + 1), true);
      view.setUint32(16, encoded.length, true);
      view.setUint8(20, typeOf(node));
      record.set(encoded, 24);
      const take = Math.min(record.length, end - at); // a full buffer means: ask again
      this.guest.bytes.set(record.subarray(0, take), at);
      at += take;
    }
    return this.guest.putU32(written, at - buffer);
  }

  private openPath(fd: number, path: number, length: number, oflags: number, rights: bigint, at: number): number {
    const node = this.resolve(fd, path, length);
    if (node === ERRNO.NOENT && oflags & OFLAG.CREAT) return ERRNO.ROFS;
    if (typeof node === 'number') return node;
    if (node === RESULT_DEVICE) return this.open({ kind: 'result' }, at);
    const isDirectory = node instanceof Map;
    // Refused here and not when the buffer is flushed, so that the error names the line that opened the file.
    if (oflags & (OFLAG.CREAT | OFLAG.TRUNC)) return ERRNO.ROFS;
    if ((rights & RIGHT.FD_WRITE) !== 0n && !isDirectory) return ERRNO.ROFS;
    if (oflags & OFLAG.DIRECTORY && !isDirectory) return ERRNO.NOTDIR;
    return this.open(isDirectory ? { kind: 'directory', node } : { kind: 'file', bytes: node, at: 0 }, at);
  }

  private putDescriptorStat(fd: number, at: number): number {
    const found = this.fds.get(fd);
    if (!found) return ERRNO.BADF;
    const [type, rights] =
      found.kind === 'directory'
        ? [FILETYPE.DIRECTORY, DIRECTORY_RIGHTS]
        : found.kind === 'file'
          ? [FILETYPE.REGULAR_FILE, FILE_RIGHTS]
          : [FILETYPE.CHARACTER_DEVICE, found.kind === 'stdin' ? RIGHT.FD_READ : RIGHT.FD_WRITE];
    this.guest.dv.setUint16(at, type, true);
    this.guest.dv.setUint16(at + 2, 0, true);
    this.guest.putU64(at + 8, rights);
    return this.guest.putU64(at + 16, found.kind === 'directory' ? FILE_RIGHTS | DIRECTORY_RIGHTS : 0n);
  }

  private seek(fd: number, offset: bigint, whence: number, at: number): number {
    const found = this.fds.get(fd);
    if (!found) return ERRNO.BADF;
    if (found.kind !== 'file') return ERRNO.SPIPE;
    const base = whence === 0 ? 0 : whence === 1 ? found.at : found.bytes.length;
    const target = base + Number(offset);
    if (target < 0) return ERRNO.INVAL;
    found.at = target;
    return this.guest.putU64(at, BigInt(target));
  }

  private read(fd: number, iovs: number, count: number, written: number): number {
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

  private write(fd: number, iovs: number, count: number, written: number): number {
    const found = this.fds.get(fd);
    if (!found) return ERRNO.BADF;
    if (found.kind !== 'output' && found.kind !== 'result') return ERRNO.ROFS;
    return this.guest.putU32(
      written,
      this.guest.gather(iovs, count, (bytes) => this.writeTo(found, bytes)),
    );
  }

  private randomBytes(at: number, length: number): number {
    for (let offset = 0; offset < length; offset += RANDOM_CHUNK) {
      crypto.getRandomValues(this.guest.bytes.subarray(at + offset, at + Math.min(length, offset + RANDOM_CHUNK)));
    }
    return ERRNO.SUCCESS;
  }

  /** The imports of `wasi_snapshot_preview1`. All of them: a module that asks for more does not link. */
  imports() {
    return {
      args_get: (pointers: number, bytes: number) => this.guest.putList(this.args, pointers, bytes),
      args_sizes_get: (count: number, bytes: number) => this.guest.putSizes(this.args, count, bytes),
      // The environment is always empty.
      environ_get: ok,
      environ_sizes_get: (count: number, bytes: number) => this.guest.putSizes([], count, bytes),
      clock_res_get: (_id: number, at: number) => this.guest.putU64(at, CLOCK_RESOLUTION_NS),
      clock_time_get: (id: number, _precision: bigint, at: number) => this.guest.putU64(at, this.nanoseconds(id)),
      random_get: (at: number, length: number) => this.randomBytes(at, length),
      proc_exit: (code: number) => {
        throw new GuestExit(code);
      },
      sched_yield: ok,
      fd_advise: ok,
      fd_sync: ok,
      fd_datasync: ok,
      fd_fdstat_set_flags: ok,
      fd_prestat_get: (fd: number, at: number) => {
        const found = this.fds.get(fd);
        if (found?.kind !== 'directory' || !found.preopen) return ERRNO.BADF;
        this.guest.putU32(at, 0);
        return this.guest.putU32(at + 4, found.preopen.length);
      },
      fd_prestat_dir_name: (fd: number, at: number, length: number) => {
        const found = this.fds.get(fd);
        if (found?.kind !== 'directory' || !found.preopen) return ERRNO.BADF;
        this.guest.bytes.set(new TextEncoder().encode(found.preopen).subarray(0, length), at);
        return ERRNO.SUCCESS;
      },
      fd_fdstat_get: (fd: number, at: number) => this.putDescriptorStat(fd, at),
      fd_filestat_get: (fd: number, at: number) => {
        const found = this.fds.get(fd);
        if (!found) return ERRNO.BADF;
        if (found.kind === 'file') return this.putStatOf(at, found.bytes);
        if (found.kind === 'directory') return this.putStatOf(at, found.node);
        return this.guest.putStat(at, FILETYPE.CHARACTER_DEVICE, 0);
      },
      fd_close: (fd: number) => this.fds.close(fd),
      fd_seek: (fd: number, offset: bigint, whence: number, at: number) => this.seek(fd, offset, whence, at),
      fd_tell: (fd: number, at: number) => this.seek(fd, 0n, 1, at),
      fd_read: (fd: number, iovs: number, count: number, written: number) => this.read(fd, iovs, count, written),
      fd_pread: (fd: number, iovs: number, count: number, offset: bigint, written: number) => {
        const found = this.fds.get(fd);
        if (found?.kind !== 'file') return ERRNO.BADF;
        if (offset < 0n) return ERRNO.INVAL;
        return this.guest.putU32(written, this.guest.scatter(found.bytes, Number(offset), iovs, count));
      },
      fd_write: (fd: number, iovs: number, count: number, written: number) => this.write(fd, iovs, count, written),
      fd_readdir: (fd: number, buffer: number, length: number, cookie: bigint, written: number) =>
        this.readDirectory(fd, buffer, length, cookie, written),
      path_filestat_get: (fd: number, _flags: number, path: number, length: number, at: number) => {
        const node = this.resolve(fd, path, length);
        return typeof node === 'number' ? node : this.putStatOf(at, node);
      },
      path_open: (
        fd: number,
        _lookup: number,
        path: number,
        length: number,
        oflags: number,
        rights: bigint,
        _inheriting: bigint,
        _flags: number,
        at: number,
      ) => this.openPath(fd, path, length, oflags, rights, at),
      path_readlink: (fd: number, path: number, length: number) => {
        const node = this.resolve(fd, path, length);
        return typeof node === 'number' ? node : ERRNO.INVAL;
      },
      poll_oneoff: (subscriptions: number, events: number, count: number, written: number) =>
        this.poll(subscriptions, events, count, written),
      fd_allocate: readOnly,
      fd_filestat_set_size: readOnly,
      fd_filestat_set_times: readOnly,
      fd_pwrite: readOnly,
      path_create_directory: readOnly,
      path_filestat_set_times: readOnly,
      path_link: readOnly,
      path_remove_directory: readOnly,
      path_rename: readOnly,
      path_symlink: readOnly,
      path_unlink_file: readOnly,
      sock_accept: noSockets,
      sock_recv: noSockets,
      sock_send: noSockets,
      sock_shutdown: noSockets,
    };
  }
}
