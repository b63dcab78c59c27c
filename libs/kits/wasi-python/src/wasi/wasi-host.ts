import type { Clock } from '@toolfleet/base';
import { HostStop, type CapturedOutput, type Stream } from './captured-output.js';
import type { Directory } from './file-tree.js';
import { DescriptorTable, GuestFiles, type Descriptor } from './guest-files.js';
import { ERRNO, GuestMemory } from './guest-memory.js';
import type { ProgramBridge } from './program-bridge.js';

/** The guest called `proc_exit`. */
export class GuestExit extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`exit ${code}`);
    this.code = code;
  }
}

interface HostOptions {
  clock: Clock;
  output: CapturedOutput;
  args?: readonly string[];
  /**
   * Directories by guest path. The guest reads the list once, at boot, so a restored guest needs the same paths in the same
   * order. Their content may differ.
   */
  preopens: Readonly<Record<string, Directory>>;
  /** Charges bytes of files to the memory of the run, see `RunFiles`; default any number. */
  charge?: (bytes: number) => boolean;
  /** Gets every write to stdout and stderr first; returns true if it consumed the bytes. */
  onWrite?: (stream: Stream, bytes: Uint8Array) => boolean;
}

/** Most bytes of the result frame. */
export const RESULT_CAP = 4 * 1024 * 1024;
/** Limit of `crypto.getRandomValues`. */
const RANDOM_CHUNK = 65_536;
const CLOCK_REALTIME = 0;
const CLOCK_RESOLUTION_NS = 1_000n;
const SUBSCRIPTION_BYTES = 48;

const ok = () => ERRNO.SUCCESS;
const noLinks = () => ERRNO.NOTSUP;
const noSockets = () => ERRNO.NOSYS;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/**
 * Implements `wasi_snapshot_preview1` over an in-memory tree and its own descriptor table. These imports are
 * all that a guest can do; anything outside the given tree is unreachable. This file and the files it uses import
 * neither fs nor net nor child_process, as a spec verifies.
 */
export class WasiHost {
  private readonly args: Uint8Array[];
  private readonly guest: GuestMemory;
  private files: GuestFiles;
  private resultParts: Uint8Array[] = [];
  private resultLength = 0;
  private program: ProgramBridge | undefined;

  constructor(private readonly options: HostOptions) {
    this.args = (options.args ?? []).map((arg) => new TextEncoder().encode(`${arg}\0`));
    this.guest = new GuestMemory((pages) => {
      options.output.pages = pages;
    });
    this.files = this.freshFiles();
  }

  private freshFiles(): GuestFiles {
    const { preopens, charge = () => true } = this.options;
    const now = () => this.nanoseconds(CLOCK_REALTIME);
    return new GuestFiles(this.guest, new DescriptorTable(preopens), { now, charge });
  }

  /** Sets the memory of the instance that uses these imports, and the marks of its writes if it keeps them. */
  bind(memory: WebAssembly.Memory, written?: WebAssembly.Memory): void {
    this.guest.bind(memory, written);
  }

  /** Clears the state of the previous run. Required between two runs. */
  reset(): void {
    this.guest.forget();
    this.files = this.freshFiles();
    this.resultParts = [];
    this.resultLength = 0;
    this.program = undefined;
  }

  /** Lets the next run call tools. */
  attach(program: ProgramBridge): void {
    this.program = program;
    this.files.readTools = (most) => program.read(most);
  }

  /** Input of the guest on fd 0. */
  set stdin(bytes: Uint8Array) {
    this.files.stdin = bytes;
  }

  /** Before a run: its packages, and its folder. Only this run reads and writes the folder. */
  mount(folder: Directory, packages: Directory): void {
    this.files.mount(folder, packages);
  }

  /** Content of `/dev/result`, untrusted; null if nothing. */
  result(): Uint8Array | null {
    return this.resultLength === 0 ? null : Buffer.concat(this.resultParts);
  }

  private write(fd: number, iovs: number, count: number, written: number): number {
    const found = this.files.fds.get(fd);
    if (found?.kind !== 'output' && found?.kind !== 'result' && found?.kind !== 'tools')
      return this.files.write(fd, iovs, count, written);
    return this.guest.putU32(
      written,
      this.guest.gather(iovs, count, (bytes) => this.writeTo(found, bytes)),
    );
  }

  private writeTo(descriptor: Descriptor & { kind: 'output' | 'result' | 'tools' }, bytes: Uint8Array): void {
    if (descriptor.kind === 'tools') return this.program?.write(bytes);
    if (descriptor.kind === 'output') {
      if (!this.options.onWrite?.(descriptor.stream, bytes)) this.options.output.write(descriptor.stream, bytes);
      return;
    }
    this.resultLength += bytes.length;
    if (this.resultLength > RESULT_CAP) throw new HostStop('output_limit');
    this.resultParts.push(bytes.slice());
  }

  private nanoseconds(id: number): bigint {
    if (this.program) return id === CLOCK_REALTIME ? this.program.now() : this.program.elapsed();
    return id === CLOCK_REALTIME
      ? BigInt(this.options.clock.now()) * 1_000_000n
      : BigInt(Math.round(this.options.clock.monotonic() * 1_000)) * 1_000n;
  }

  /** `poll_oneoff` for `time.sleep`: supports clocks only. Terminating the thread ends the wait. */
  private poll(subscriptions: number, events: number, count: number, written: number): number {
    const { dv } = this.guest;
    let shortest: bigint | undefined;
    let userdata = 0n;
    for (let i = 0; i < count; i++) {
      const at = subscriptions + SUBSCRIPTION_BYTES * i;
      if (dv.getUint8(at + 8) !== 0) return ERRNO.NOTSUP;
      let wait = dv.getBigUint64(at + 24, true);
      const absolute = (dv.getUint16(at + 40, true) & 1) === 1;
      if (absolute) {
        const now = this.nanoseconds(dv.getUint32(at + 16, true));
        wait = wait > now ? wait - now : 0n;
      }
      if (shortest === undefined || wait < shortest) {
        shortest = wait;
        userdata = dv.getBigUint64(at, true);
      }
    }
    if (shortest === undefined) return ERRNO.INVAL;
    if (shortest > 0n) Atomics.wait(sleeper, 0, 0, Math.min(Number(shortest) / 1e6, 1e9));
    this.program?.slept(shortest);
    this.guest.putClockEvent(events, userdata);
    return this.guest.putU32(written, 1);
  }

  private randomBytes(at: number, length: number): number {
    const bytes = this.guest.writable(at, length >>> 0);
    if (this.program) {
      this.program.fillRandom(bytes);
      return ERRNO.SUCCESS;
    }
    for (let offset = 0; offset < bytes.length; offset += RANDOM_CHUNK) {
      crypto.getRandomValues(bytes.subarray(offset, offset + RANDOM_CHUNK) as Uint8Array<ArrayBuffer>);
    }
    return ERRNO.SUCCESS;
  }

  /** All imports of `wasi_snapshot_preview1`; a module that needs others does not link. */
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
      // Not kept: a program gives `O_APPEND` when it opens a file.
      fd_fdstat_set_flags: ok,
      fd_prestat_get: (fd: number, at: number) => this.files.preopen(fd, at),
      fd_prestat_dir_name: (fd: number, at: number, length: number) => this.files.preopenName(fd, at, length),
      fd_fdstat_get: (fd: number, at: number) => this.files.descriptorStat(fd, at),
      fd_filestat_get: (fd: number, at: number) => this.files.stat(fd, at),
      fd_close: (fd: number) => this.files.close(fd),
      fd_seek: (fd: number, offset: bigint, whence: number, at: number) => this.files.seek(fd, offset, whence, at),
      fd_tell: (fd: number, at: number) => this.files.seek(fd, 0n, 1, at),
      fd_read: (fd: number, iovs: number, count: number, written: number) => this.files.read(fd, iovs, count, written),
      fd_pread: (fd: number, iovs: number, count: number, offset: bigint, written: number) =>
        this.files.readAt(fd, iovs, count, offset, written),
      fd_write: (fd: number, iovs: number, count: number, written: number) => this.write(fd, iovs, count, written),
      fd_readdir: (fd: number, buffer: number, length: number, cookie: bigint, written: number) =>
        this.files.readDirectory(fd, buffer, length, cookie, written),
      path_filestat_get: (fd: number, _flags: number, path: number, length: number, at: number) =>
        this.files.statPath(fd, path, length, at),
      path_open: (
        fd: number,
        _lookup: number,
        path: number,
        length: number,
        oflags: number,
        rights: bigint,
        _inheriting: bigint,
        fdflags: number,
        at: number,
      ) => this.files.open(fd, path, length, [oflags, rights, fdflags], at),
      path_readlink: (fd: number, path: number, length: number) => this.files.readLink(fd, path, length),
      poll_oneoff: (subscriptions: number, events: number, count: number, written: number) =>
        this.poll(subscriptions, events, count, written),
      fd_allocate: (fd: number, offset: bigint, length: bigint) => this.files.setSize(fd, offset + length, true),
      fd_filestat_set_size: (fd: number, size: bigint) => this.files.setSize(fd, size),
      fd_filestat_set_times: (fd: number, _accessed: bigint, modified: bigint, flags: number) =>
        this.files.setTimes(this.files.fds.node(fd), fd, modified, flags),
      fd_pwrite: (fd: number, iovs: number, count: number, offset: bigint, written: number) =>
        this.files.write(fd, iovs, count, written, offset),
      path_create_directory: (fd: number, path: number, length: number) => this.files.makeDirectory(fd, path, length),
      path_filestat_set_times: (
        fd: number,
        _lookup: number,
        path: number,
        length: number,
        _accessed: bigint,
        modified: bigint,
        flags: number,
      ) => this.files.setTimes(this.files.resolve(fd, path, length), fd, modified, flags),
      path_link: noLinks,
      path_remove_directory: (fd: number, path: number, length: number) =>
        this.files.remove(fd, path, length, 'directory'),
      path_rename: (fd: number, path: number, length: number, toFd: number, toPath: number, toLength: number) =>
        this.files.rename(fd, path, length, toFd, toPath, toLength),
      path_symlink: noLinks,
      path_unlink_file: (fd: number, path: number, length: number) => this.files.remove(fd, path, length, 'file'),
      sock_accept: noSockets,
      sock_recv: noSockets,
      sock_send: noSockets,
      sock_shutdown: noSockets,
    };
  }
}
