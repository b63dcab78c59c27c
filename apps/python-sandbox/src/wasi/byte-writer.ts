/** Grows a sequence of bytes without a piece of memory for each part: an interpreter's code has a million of them. */
export class ByteWriter {
  length = 0;
  private bytes: Uint8Array<ArrayBuffer>;

  constructor(capacity: number) {
    this.bytes = new Uint8Array(capacity);
  }

  /** What was written; valid until more is. */
  get written(): Uint8Array<ArrayBuffer> {
    return this.bytes.subarray(0, this.length);
  }

  clear(): void {
    this.length = 0;
  }

  byte(value: number): void {
    this.reserve(1);
    this.bytes[this.length++] = value;
  }

  copy(part: Uint8Array, from = 0, to = part.length): void {
    this.reserve(to - from);
    this.bytes.set(from === 0 && to === part.length ? part : part.subarray(from, to), this.length);
    this.length += to - from;
  }

  /** An unsigned number in LEB128. */
  leb(value: number): void {
    while (value > 127) {
      this.byte((value & 127) | 128);
      value = Math.floor(value / 128);
    }
    this.byte(value);
  }

  /** A signed 32-bit number in LEB128, as `i32.const` wants it. */
  signedLeb(value: number): void {
    for (; value < -64 || value > 63; value >>= 7) this.byte((value & 127) | 128);
    this.byte(value & 127);
  }

  private reserve(more: number): void {
    if (this.length + more <= this.bytes.length) return;
    const larger = new Uint8Array(2 * (this.length + more));
    larger.set(this.written);
    this.bytes = larger;
  }
}
