/**
 * The guest's linear memory as the host reads and writes it. Pointers and lengths come from the guest and are
 * untrusted: an access outside the memory throws a RangeError here, which ends the run as crashed.
 */
import { ERRNO, PAGE_BYTES } from './abi.js';

const STAT_BYTES = 64;
/** Bytes of a buffer descriptor: pointer and length. */
const IOVEC_BYTES = 8;

export class GuestView {
  private memory: WebAssembly.Memory | undefined;
  private buffer: ArrayBufferLike | undefined;
  private view = new DataView(new ArrayBuffer(0));
  private raw = new Uint8Array(0);

  /** `onResize` hears the number of pages whenever it is seen to have changed. */
  constructor(private readonly onResize: (pages: number) => void) {}

  /** The memory of the instance that uses this host. */
  bind(memory: WebAssembly.Memory): void {
    this.memory = memory;
  }

  /** `memory.grow` detaches the old buffer: views are made again when it changed. */
  private refresh(): void {
    const buffer = this.memory!.buffer;
    if (this.buffer === buffer) return;
    this.buffer = buffer;
    this.view = new DataView(buffer);
    this.raw = new Uint8Array(buffer);
    this.onResize(buffer.byteLength / PAGE_BYTES);
  }

  get dv(): DataView {
    this.refresh();
    return this.view;
  }

  get bytes(): Uint8Array {
    this.refresh();
    return this.raw;
  }

  /** Writers return SUCCESS, so that an import can end with them. */
  putU32(at: number, value: number): number {
    this.dv.setUint32(at, value, true);
    return ERRNO.SUCCESS;
  }

  putU64(at: number, value: bigint): number {
    this.dv.setBigUint64(at, value, true);
    return ERRNO.SUCCESS;
  }

  text(at: number, length: number): string {
    return new TextDecoder().decode(this.bytes.slice(at, at + length));
  }

  /** A `filestat`: everything zero but device, inode, links, type and size. */
  putStat(at: number, type: number, size: number): number {
    const view = this.dv;
    for (let offset = 0; offset < STAT_BYTES; offset += 8) view.setBigUint64(at + offset, 0n, true);
    view.setBigUint64(at, 1n, true);
    view.setBigUint64(at + 8, 1n, true);
    view.setUint8(at + 16, type);
    view.setBigUint64(at + 24, 1n, true);
    view.setBigUint64(at + 32, BigInt(size), true);
    return ERRNO.SUCCESS;
  }

  /** The list and its bytes, as `args_get` wants them. */
  putList(list: readonly Uint8Array[], pointers: number, bytes: number): number {
    for (const entry of list) {
      this.putU32(pointers, bytes);
      this.bytes.set(entry, bytes);
      pointers += 4;
      bytes += entry.length;
    }
    return ERRNO.SUCCESS;
  }

  putSizes(list: readonly Uint8Array[], count: number, bytes: number): number {
    this.putU32(count, list.length);
    return this.putU32(
      bytes,
      list.reduce((sum, entry) => sum + entry.length, 0),
    );
  }

  /** Copies from `source` into the guest's buffers; the number of bytes. */
  scatter(source: Uint8Array, from: number, iovs: number, count: number): number {
    let total = 0;
    for (let i = 0; i < count; i++) {
      const at = this.dv.getUint32(iovs + IOVEC_BYTES * i, true);
      const wanted = this.dv.getUint32(iovs + IOVEC_BYTES * i + 4, true);
      const length = Math.min(wanted, source.length - from - total);
      if (length <= 0) break;
      this.bytes.set(source.subarray(from + total, from + total + length), at);
      total += length;
    }
    return total;
  }

  /** Hands each of the guest's buffers to `take`; the number of bytes. */
  gather(iovs: number, count: number, take: (bytes: Uint8Array) => void): number {
    let total = 0;
    for (let i = 0; i < count; i++) {
      const at = this.dv.getUint32(iovs + IOVEC_BYTES * i, true);
      const length = this.dv.getUint32(iovs + IOVEC_BYTES * i + 4, true);
      take(this.bytes.subarray(at, at + length));
      total += length;
    }
    return total;
  }
}
