/** Reads and writes the binary format of WebAssembly: numbers, names and sections. */

/** Section ids (WebAssembly core specification, section 5.5). */
export const SECTION = {
  CUSTOM: 0,
  TYPE: 1,
  IMPORT: 2,
  FUNCTION: 3,
  TABLE: 4,
  MEMORY: 5,
  GLOBAL: 6,
  EXPORT: 7,
  START: 8,
  CODE: 10,
  DATA: 11,
  DATA_COUNT: 12,
} as const;
/** Kinds of imports and exports. */
export const KIND = { FUNCTION: 0, TABLE: 1, MEMORY: 2, GLOBAL: 3 } as const;
/** Value and reference types. */
export const TYPE = { I32: 0x7f, I64: 0x7e, F32: 0x7d, F64: 0x7c, FUNCREF: 0x70 } as const;

/** Magic number and version 1. */
export const MODULE_HEADER = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);

/** A section with its content, without id and length. */
export interface Section {
  id: number;
  data: Uint8Array;
}

/** An unsigned number in LEB128. */
export function leb(value: number): Uint8Array {
  const writer = new ByteWriter(5);
  writer.leb(value);
  return writer.written;
}

/** Reads an unsigned LEB128 number. @throws Error if the bytes end within it */
export function readLeb(bytes: Uint8Array, at: number): [value: number, next: number] {
  let value = 0;
  let scale = 1;
  for (;;) {
    const byte = bytes[at++];
    if (byte === undefined) throw new Error('the module ends inside a number');
    value += (byte & 127) * scale;
    scale *= 128;
    if (byte < 128) return [value, at];
  }
}

/** A length-prefixed UTF-8 name. */
export function name(text: string): Uint8Array {
  const bytes = new TextEncoder().encode(text);
  return concat([leb(bytes.length), bytes]);
}

/** Joins byte arrays. */
export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Splits a module into its sections. @throws Error if it is not a module or is truncated */
export function readSections(wasm: Uint8Array): Section[] {
  if (!MODULE_HEADER.every((byte, at) => wasm[at] === byte)) throw new Error('not a WebAssembly module');
  const sections: Section[] = [];
  for (let at = MODULE_HEADER.length; at < wasm.length;) {
    const id = wasm[at]!;
    const [length, start] = readLeb(wasm, at + 1);
    if (start + length > wasm.length) throw new Error('the module ends inside a section');
    sections.push({ id, data: wasm.subarray(start, start + length) });
    at = start + length;
  }
  return sections;
}

/** A growing byte buffer. Code with a million parts must not allocate memory for each. */
export class ByteWriter {
  length = 0;
  private bytes: Uint8Array<ArrayBuffer>;

  constructor(capacity: number) {
    this.bytes = new Uint8Array(capacity);
  }

  /** The written bytes; valid until the next write. */
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

  /** A signed 32-bit number in LEB128, the operand of `i32.const`. */
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
