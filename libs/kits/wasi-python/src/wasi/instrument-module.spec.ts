import { describe, expect, it } from 'vitest';
import { bootModule, codeModule } from './instrument-module.js';

const section = (id: number, ...body: number[]) => [id, body.length, ...body];
const HEADER = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0];
const parts = {
  type: section(1, 1, 0x60, 0, 0),
  import: section(2, 1, 1, 0x65, 1, 0x66, 0, 0), // e.f, a function
  function: section(3, 1, 0),
  table: section(4, 1, 0x70, 1, 1, 8),
  memory: section(5, 1, 0, 2),
  global: section(6, 1, 0x7f, 1, 0x41, 7, 0x0b), // mutable i32 = 7
  export: section(7, 1, 1, 0x67, 0, 1), // g = function 1
  code: section(10, 1, 2, 0, 0x0b),
  data: section(11, 1, 0, 0x41, 0, 0x0b, 1, 0x2a), // one byte 42 at 0
  custom: section(0, 1, 0x78, 1, 2, 3),
};
const build = (overrides: Partial<Record<keyof typeof parts | 'start', number[]>> = {}) => {
  const {
    type,
    import: imports,
    table,
    memory,
    global,
    export: exports,
    code,
    data,
    custom,
  } = { ...parts, ...overrides };
  const fn = overrides.function ?? parts.function;
  const order = [type, imports, fn, table, memory, global, exports, overrides.start ?? [], code, data, custom];
  return Uint8Array.from([...HEADER, ...order.flat()]);
};
const edit = (wasm: Uint8Array) => bootModule(wasm, 10);
const instantiate = (wasm: Uint8Array<ArrayBuffer>, memory: WebAssembly.Memory) => {
  const written = new WebAssembly.Memory({ initial: 1, maximum: 1 });
  const imports = { e: { f: () => undefined }, env: { memory, written } };
  return new WebAssembly.Instance(new WebAssembly.Module(wasm), imports);
};

describe('instrumenting a module', () => {
  it('imports the memory and exports table and stack pointer', () => {
    const memory = new WebAssembly.Memory({ initial: 2, maximum: 5 });
    const { wasm, minPages } = edit(build());
    const exports = instantiate(wasm, memory).exports as Record<string, WebAssembly.Global>;
    expect(Object.keys(exports).toSorted()).toEqual(['__sp', '__table', 'g']);
    expect(exports['__sp']!.value).toBe(7);
    expect(minPages).toBe(2);
    expect(new Uint8Array(memory.buffer)[0]).toBe(42);
  });

  it('drops debug information, and data in the code module', () => {
    const memory = new WebAssembly.Memory({ initial: 2, maximum: 5 });
    const code = codeModule(build(), 10).wasm;
    instantiate(code, memory);
    expect(new Uint8Array(memory.buffer)[0]).toBe(0);
    expect(Buffer.from(code).includes(Buffer.from(parts.custom))).toBe(false);
  });

  it.each([
    ['a start section', { start: section(8, 1) }, /start section/],
    ['no memory of its own', { memory: [] }, /one defined memory/],
    ['two memories', { memory: section(5, 2, 0, 2, 0, 2) }, /one defined memory/],
    ['no table', { table: [] }, /funcref table/],
    ['a table of other references', { table: section(4, 1, 0x6f, 1, 1, 8) }, /funcref table/],
    ['a table over the limit', { table: section(4, 1, 0x70, 1, 1, 11) }, /11 elements, the limit is 10/],
    ['a table without a limit', { table: section(4, 1, 0x70, 0, 1) }, /any number/],
    ['an immutable stack pointer', { global: section(6, 1, 0x7f, 0, 0x41, 7, 0x0b) }, /mutable i32/],
    ['a stack pointer that another module gives', { global: section(6, 1, 0x7f, 1, 0x23, 0, 0x0b) }, /constant/],
    ['a stack pointer of 64 bits', { global: section(6, 1, 0x7e, 1, 0x42, 7, 0x0b) }, /mutable i32/],
  ])('refuses %s', (_name, overrides, message) => {
    expect(() => codeModule(build(overrides), 10)).toThrow(message);
  });

  it('refuses truncated files and files that are not a module', () => {
    expect(() => edit(Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8]))).toThrow(/not a WebAssembly module/);
    expect(() => edit(build().subarray(0, 30))).toThrow(/ends inside/);
  });
});
