import { UNIT_BYTES } from './dirty-pages.js';

/** Error numbers of `wasi_snapshot_preview1` that this host returns. */
export const ERRNO = {
  SUCCESS: 0,
  BADF: 8,
  EXIST: 20,
  INVAL: 28,
  ISDIR: 31,
  MFILE: 33,
  NAMETOOLONG: 37,
  NOENT: 44,
  NOSPC: 51,
  NOSYS: 52,
  NOTDIR: 54,
  NOTEMPTY: 55,
  NOTSUP: 58,
  ROFS: 69,
  SPIPE: 70,
  NOTCAPABLE: 76,
} as const;

/** Bits of `oflags` of `path_open`. */
export const OFLAG = { CREAT: 1, DIRECTORY: 2, EXCL: 4, TRUNC: 8 } as const;

/** Bit of `fdflags` of `path_open`. */
export const FDFLAG_APPEND = 1;

/** Bits of `fst_flags`: which modification time `*_set_times` sets. */
export const SET_TIME = { MODIFIED: 4, MODIFIED_NOW: 8 } as const;

/** Bits of `rights` that files outside the folders of a run and devices get; those below the folders of a run get `ALL`. */
export const RIGHT = {
  FD_READ: 1n << 1n,
  FD_SEEK: 1n << 2n,
  FD_TELL: 1n << 5n,
  FD_WRITE: 1n << 6n,
  PATH_OPEN: 1n << 13n,
  FD_READDIR: 1n << 14n,
  PATH_FILESTAT_GET: 1n << 18n,
  FD_FILESTAT_GET: 1n << 21n,
  ALL: (1n << 29n) - 1n,
} as const;

/** WASI file types. */
export const FILETYPE = { CHARACTER_DEVICE: 2, DIRECTORY: 3, REGULAR_FILE: 4 } as const;

/** Bytes of a WebAssembly page. */
export const PAGE_BYTES = 65_536;
/** WebAssembly pages per MiB. */
export const PAGES_PER_MB = 16;

const STAT_BYTES = 64;
/** Members of a `filestat`. */
interface FileStat {
  /** One of `FILETYPE`. */
  type: number;
  inode: number;
  /** In bytes. */
  size: number;
  /** Nanoseconds since the epoch. */
  timeNs: bigint;
}

/** Bytes of a buffer descriptor: pointer and length. */
const IOVEC_BYTES = 8;

/**
 * The host's access to the guest's linear memory. Pointers and lengths come from the guest and are untrusted: an access out
 * of bounds throws a RangeError and ends the run as crashed. All writes of the host go through this class, because they
 * have to be marked like the guest's own writes (dirty-pages.ts).
 */
export class GuestMemory {
  private memory: WebAssembly.Memory | undefined;
  private marks: Uint8Array | undefined;
  private buffer: ArrayBufferLike | undefined;
  private view = new DataView(new ArrayBuffer(0));
  private raw = new Uint8Array(0);

  /** `onResize` gets the number of pages whenever an access sees that it changed. */
  constructor(private readonly onResize: (pages: number) => void) {}

  /** Sets the memory of the instance, and the marks of its writes if it keeps them. */
  bind(memory: WebAssembly.Memory, written?: WebAssembly.Memory): void {
    this.memory = memory;
    this.marks = written && new Uint8Array(written.buffer);
  }

  /** Makes the next access report the size again. */
  forget(): void {
    this.buffer = undefined;
  }

  /** Renews the views if `memory.grow` has detached the old buffer. */
  private refresh(): void {
    const buffer = this.memory!.buffer;
    if (this.buffer === buffer) return;
    this.buffer = buffer;
    this.view = new DataView(buffer);
    this.raw = new Uint8Array(buffer);
    this.onResize(buffer.byteLength / PAGE_BYTES);
  }

  /** For reading only. */
  get dv(): DataView {
    this.refresh();
    return this.view;
  }

  private range(at: number, length: number): Uint8Array {
    this.refresh();
    at >>>= 0; // pointers are passed as signed numbers
    if (at + length > this.raw.length) throw new RangeError(`${length} bytes at ${at} are out of bounds`);
    return this.raw.subarray(at, at + length);
  }

  /** A range of the memory to write to, marked as written. */
  writable(at: number, length: number): Uint8Array {
    const part = this.range(at, length);
    if (this.marks && length > 0) {
      const first = (at >>> 0) / UNIT_BYTES;
      this.marks.fill(1, Math.floor(first), Math.floor(first + (length - 1) / UNIT_BYTES) + 1);
    }
    return part;
  }

  private writableView(at: number, length: number): DataView {
    const { buffer, byteOffset } = this.writable(at, length);
    return new DataView(buffer, byteOffset, length);
  }

  /** Copies bytes to the memory. */
  put(bytes: Uint8Array, at: number): void {
    this.writable(at, bytes.length).set(bytes);
  }

  /** Writers return SUCCESS, so that an import can return their result. */
  putU32(at: number, value: number): number {
    this.writableView(at, 4).setUint32(0, value, true);
    return ERRNO.SUCCESS;
  }

  putU64(at: number, value: bigint): number {
    this.writableView(at, 8).setBigUint64(0, value, true);
    return ERRNO.SUCCESS;
  }

  /** Reads UTF-8 text. */
  text(at: number, length: number): string {
    return new TextDecoder().decode(this.range(at, length >>> 0).slice());
  }

  /** Writes a `filestat` with one link; all three times are `timeNs`. */
  putStat(at: number, { type, inode, size, timeNs }: FileStat): number {
    const view = this.writableView(at, STAT_BYTES);
    view.setBigUint64(0, 1n, true);
    view.setBigUint64(8, BigInt(inode), true);
    view.setBigUint64(16, BigInt(type), true);
    view.setBigUint64(24, 1n, true);
    view.setBigUint64(32, BigInt(size), true);
    for (let offset = 40; offset < STAT_BYTES; offset += 8) view.setBigUint64(offset, timeNs, true);
    return ERRNO.SUCCESS;
  }

  /** Writes an `fdstat`: type, no flags, the rights of the descriptor and the rights inherited by files opened below it. */
  putDescriptorStat(at: number, type: number, rights: bigint, inherited: bigint): number {
    const view = this.writableView(at, 24);
    view.setUint16(0, type, true);
    view.setUint16(2, 0, true);
    view.setBigUint64(8, rights, true);
    view.setBigUint64(16, inherited, true);
    return ERRNO.SUCCESS;
  }

  /** Writes the `event` of an expired clock for the subscription with this `userdata`. */
  putClockEvent(at: number, userdata: bigint): void {
    const view = this.writableView(at, 11);
    view.setBigUint64(0, userdata, true);
    view.setUint16(8, ERRNO.SUCCESS, true);
    view.setUint8(10, 0);
  }

  /** Writes a list of strings in the form of `args_get`: pointers and bytes. */
  putList(list: readonly Uint8Array[], pointers: number, bytes: number): number {
    for (const entry of list) {
      this.putU32(pointers, bytes);
      this.put(entry, bytes);
      pointers += 4;
      bytes += entry.length;
    }
    return ERRNO.SUCCESS;
  }

  /** Writes the count and total bytes of a list, in the form of `args_sizes_get`. */
  putSizes(list: readonly Uint8Array[], count: number, bytes: number): number {
    this.putU32(count, list.length);
    return this.putU32(
      bytes,
      list.reduce((sum, entry) => sum + entry.length, 0),
    );
  }

  /**
   * Fills the guest's buffers with up to `available` bytes. Returns the number of bytes.
   * @param copy gets a buffer and the position of its first byte among them
   */
  scatter(available: number, iovs: number, count: number, copy: (target: Uint8Array, from: number) => void): number {
    let total = 0;
    for (let i = 0; i < count; i++) {
      const at = this.dv.getUint32(iovs + IOVEC_BYTES * i, true);
      const wanted = this.dv.getUint32(iovs + IOVEC_BYTES * i + 4, true);
      const length = Math.min(wanted, available - total);
      if (length <= 0) break;
      copy(this.writable(at, length), total);
      total += length;
    }
    return total;
  }

  /** Bytes that the guest's buffers hold together. */
  capacity(iovs: number, count: number): number {
    let total = 0;
    for (let i = 0; i < count; i++) total += this.dv.getUint32(iovs + IOVEC_BYTES * i + 4, true);
    return total;
  }

  /** Passes each of the guest's buffers to `take`. Returns the number of bytes. */
  gather(iovs: number, count: number, take: (bytes: Uint8Array) => void): number {
    let total = 0;
    for (let i = 0; i < count; i++) {
      const at = this.dv.getUint32(iovs + IOVEC_BYTES * i, true);
      const length = this.dv.getUint32(iovs + IOVEC_BYTES * i + 4, true);
      take(this.range(at, length));
      total += length;
    }
    return total;
  }
}
