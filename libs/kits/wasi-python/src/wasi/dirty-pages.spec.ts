import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { codeModule } from './instrument-module.js';
import { LARGEST_STORE, UNIT_BYTES } from './dirty-pages.js';
import { ByteWriter, leb } from './wasm-binary.js';

const STACK_TOP = 16_384;
const PAGES = 2;
const [I32, I64, F32, F64] = [0x7f, 0x7e, 0x7d, 0x7c];
/** Name, opcode, bytes and type of each store. */
const STORES = [
  ['i32.store', 0x36, 4, I32],
  ['i64.store', 0x37, 8, I64],
  ['f32.store', 0x38, 4, F32],
  ['f64.store', 0x39, 8, F64],
  ['i32.store8', 0x3a, 1, I32],
  ['i32.store16', 0x3b, 2, I32],
  ['i64.store8', 0x3c, 1, I64],
  ['i64.store16', 0x3d, 2, I64],
  ['i64.store32', 0x3e, 4, I64],
] as const;
const GET_SP = [0x23, 0];
const SET_SP = [0x24, 0];
const constant = (value: number) => {
  const writer = new ByteWriter(6);
  writer.byte(0x41);
  writer.signedLeb(value);
  return [...writer.written];
};
const store = (opcode: number, offset = 0) => [opcode, 0, ...leb(offset)];

const section = (id: number, ...body: number[]) => [id, ...leb(body.length), ...body];
/** A module with one exported function `f(i32, type)`, three i32 locals, and a global besides the stack pointer. */
function build(body: number[], type: number = I32): Uint8Array {
  const code = [1, 3, I32, ...body, 0x0b];
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, 1, 0x60, 2, I32, type, 0),
    ...section(2, 0),
    ...section(3, 1, 0),
    ...section(4, 1, 0x70, 1, 1, 1),
    ...section(5, 1, 0, PAGES),
    ...section(6, 2, I32, 1, ...constant(STACK_TOP), 0x0b, I32, 1, ...constant(0), 0x0b),
    ...section(7, 1, 1, 0x66, 0, 0),
    ...section(10, 1, ...leb(code.length), ...code),
  ]);
}

interface Tracked {
  memory: WebAssembly.Memory;
  maxPages: WebAssembly.Global;
  call: (address: number, value: number | bigint) => void;
  bytes: Uint8Array;
  marks: () => number[];
  stackPointer: WebAssembly.Global;
}
function tracked(body: number[], type?: number, maximum = PAGES): Tracked {
  const memory = new WebAssembly.Memory({ initial: PAGES, maximum });
  const written = new WebAssembly.Memory({ initial: 1, maximum: 1 });
  const module = new WebAssembly.Module(codeModule(build(body, type), 1).wasm);
  const { exports } = new WebAssembly.Instance(module, { env: { memory, written } });
  return {
    memory,
    maxPages: exports['__max_pages'] as WebAssembly.Global,
    call: exports['f'] as Tracked['call'],
    bytes: new Uint8Array(memory.buffer),
    marks: () => [...new Uint8Array(written.buffer)].flatMap((mark, unit) => (mark ? [unit] : [])),
    stackPointer: exports['__sp'] as WebAssembly.Global,
  };
}
const isTracked = (body: number[]) => {
  const imports = WebAssembly.Module.imports(new WebAssembly.Module(codeModule(build(body), 1).wasm));
  return imports.some(({ name }) => name === 'written');
};

describe('markDirtyPages', () => {
  it.each(STORES)('cover every byte that %s changes, wherever it goes', (_, opcode, size, type) => {
    const value = type === I64 ? -1n : -1.5;
    const end = PAGES * 65_536;
    const address = fc.oneof(
      fc.integer({ min: 0, max: end + 16 }),
      fc.integer({ min: 1, max: end / UNIT_BYTES }).map((unit) => unit * UNIT_BYTES - 3),
      fc.constantFrom(-1, -8, 2 ** 31 - 1, -(2 ** 31)),
    );
    fc.assert(
      fc.property(address, fc.constantFrom(0, 1, 5, 4_000, 70_000, 2 ** 31), (at, offset) => {
        const { call, bytes, marks } = tracked([0x20, 0, 0x20, 1, ...store(opcode, offset)], type);
        const target = (at >>> 0) + offset;
        if (target + size > end) {
          expect(() => call(at, value)).toThrow(/out of bounds/);
          expect(bytes.every((byte) => byte === 0)).toBe(true);
          return;
        }
        call(at, value);
        expect(marks()).toEqual([Math.floor(target / UNIT_BYTES)]);
        const [begin] = marks();
        const from = begin! * UNIT_BYTES;
        bytes.fill(0, from, from + UNIT_BYTES + LARGEST_STORE);
        expect(bytes.every((byte) => byte === 0)).toBe(true);
      }),
      { numRuns: 40 },
    );
  });

  // local 2 = stack pointer - 64
  const frame = [...GET_SP, ...constant(64), 0x6b, 0x21, 2];
  it.each([
    ['into a frame', [...frame, 0x20, 2, 0x20, 1, ...store(0x36, 60)], false],
    ['into a frame, its value computed in between', [...frame, 0x20, 2, 0x20, 1, 0x20, 0, 0x6a, ...store(0x36)], false],
    ['past the end of a frame', [...frame, 0x20, 2, 0x20, 1, ...store(0x36, 61)], true],
    [
      'through a local that was given another value',
      [...frame, 0x20, 0, 0x21, 2, 0x20, 2, 0x20, 1, ...store(0x36)],
      true,
    ],
    [
      'through a local that may have been',
      [...frame, 0x20, 1, 0x04, 0x40, 0x20, 0, 0x21, 2, 0x0b, 0x20, 2, 0x20, 1, ...store(0x36)],
      true,
    ],
    ['through a parameter', [...GET_SP, ...constant(64), 0x6b, 0x21, 0, 0x20, 0, 0x20, 1, ...store(0x36)], true],
    ['through a sum with a frame', [...frame, 0x20, 2, 0x20, 0, 0x6a, 0x20, 1, ...store(0x36)], true],
    [
      'into what lies above the stack pointer',
      [...GET_SP, ...constant(-64), 0x6b, 0x21, 2, 0x20, 2, 0x20, 1, ...store(0x36)],
      true,
    ],
    ['at the stack pointer', [...GET_SP, 0x20, 1, ...store(0x36)], true],
  ])('of a store %s', (_, body, isMarked) => {
    const { call, bytes, marks } = tracked(body);
    call(8, 1);
    expect(marks().length > 0).toBe(isMarked);
    // Unmarked writes are in the stack (copied as a whole).
    if (!isMarked) expect(bytes.subarray(STACK_TOP).every((byte) => byte === 0)).toBe(true);
  });

  it('traps a stack pointer above the stack and a frame below it', () => {
    const { call, stackPointer } = tracked([0x20, 0, ...SET_SP]);
    call(STACK_TOP, 0);
    expect(stackPointer.value).toBe(STACK_TOP);
    for (const above of [STACK_TOP + 1, 2 ** 31 - 1, -1]) expect(() => call(above, 0)).toThrow(/out of bounds/);
    expect(stackPointer.value).toBe(STACK_TOP);
    const deep = tracked([...frame, 0x20, 2, 0x20, 1, ...store(0x36)]);
    deep.stackPointer.value = 32;
    expect(() => deep.call(0, 1)).toThrow(/out of bounds/);
  });

  it.each([
    ['one page at most', 3, 1, 3],
    ['to the bound at once', 5, 3, 5],
    ['beyond the bound', 5, 4, PAGES],
    ['far beyond the bound', 5, 2 ** 31, PAGES],
    ['by a number that would wrap around', 5, -2, PAGES],
    ['by nothing at the bound', PAGES, 0, PAGES],
    ['by a page at the bound', PAGES, 1, PAGES],
    ['beyond the maximum of the memory', 100, 9, PAGES],
  ])('let a memory grow %s', (_, bound, by, pages) => {
    // memory.grow(parameter 0), its result stored at 8
    const grow = [...constant(8), 0x20, 0, 0x40, 0, ...store(0x36)];
    const { call, memory, maxPages } = tracked(grow, I32, 10);
    maxPages.value = bound;
    call(by, 0);
    expect(memory.buffer.byteLength).toBe(pages * 65_536);
    const has = pages === PAGES && by !== 0 ? -1 : PAGES;
    expect(new DataView(memory.buffer).getInt32(8, true)).toBe(has);
  });

  it.each([
    ['stores and numbers', [0x20, 0, 0x20, 1, ...store(0x36)], true],
    ['memory.fill', [0x20, 0, 0x20, 1, ...constant(4), 0xfc, 11, 0], false],
    ['table.set', [...constant(0), 0xd0, 0x70, 0x26, 0], false],
    ['another global', [...constant(0), 0x24, 1], false],
    [
      'an atomic or vector store',
      [0x20, 0, 0xfd, 12, ...Array.from<number>({ length: 16 }).fill(0), 0xfd, 11, 0, 0],
      false,
    ],
  ])('are kept, or not, by code that uses %s', (_, body, can) => {
    expect(isTracked(body)).toBe(can);
  });
});
