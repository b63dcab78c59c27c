/**
 * Edits a WASI CPython "command" module, so that its memory can be kept and its functions entered from outside. No
 * toolchain: the sections are walked and copied as they are, except
 * - custom sections (debug info, half of the file): dropped;
 * - memory: dropped and imported as `env.memory` instead, because the host chooses its maximum for each run. It is
 *   appended after the function imports, which moves no function index;
 * - exports: `__table` (table 0) and `__sp` (global 0, the shadow-stack pointer) are added;
 * - data: dropped in the second variant, whose contents come from the snapshot.
 */
const SECTION = { CUSTOM: 0, IMPORT: 2, TABLE: 4, MEMORY: 5, GLOBAL: 6, EXPORT: 7, START: 8, DATA: 11, DATA_COUNT: 12 };
const KIND = { TABLE: 1, MEMORY: 2, GLOBAL: 3 };
const FUNCREF = 0x70;
const I32 = 0x7f;
const HEADER_BYTES = 8;

export interface Limits {
  min: number;
  max?: number;
}

/** What the checks found out about a module. Memory in pages, table in elements. */
export interface ModuleShape {
  memory: Limits;
  table: Limits;
}

interface Section {
  id: number;
  data: Uint8Array;
}

function leb(value: number): Uint8Array {
  const bytes: number[] = [];
  do {
    const low = value & 127;
    value >>>= 7;
    bytes.push(value ? low | 128 : low);
  } while (value);
  return Uint8Array.from(bytes);
}

function readLeb(bytes: Uint8Array, at: number): [value: number, next: number] {
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

function name(text: string): Uint8Array {
  const bytes = new TextEncoder().encode(text);
  return concat([leb(bytes.length), bytes]);
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function sectionsOf(wasm: Uint8Array): Section[] {
  if (wasm[0] !== 0 || wasm[1] !== 0x61 || wasm[2] !== 0x73 || wasm[3] !== 0x6d) {
    throw new Error('not a WebAssembly module');
  }
  const sections: Section[] = [];
  for (let at = HEADER_BYTES; at < wasm.length;) {
    const id = wasm[at]!;
    const [length, start] = readLeb(wasm, at + 1);
    if (start + length > wasm.length) throw new Error('the module ends inside a section');
    sections.push({ id, data: wasm.subarray(start, start + length) });
    at = start + length;
  }
  return sections;
}

function limitsAt(data: Uint8Array, at: number): Limits {
  const hasMax = (data[at]! & 1) === 1;
  const [min, next] = readLeb(data, at + 1);
  return hasMax ? { min, max: readLeb(data, next)[0] } : { min };
}

/** Fails closed on a module of another shape than the snapshot technique needs. */
function checkShape(sections: readonly Section[], tableLimit: number): ModuleShape {
  const find = (id: number) => sections.find((section) => section.id === id)?.data;
  if (find(SECTION.START)) throw new Error('start section present: code would run at instantiation');
  const memory = find(SECTION.MEMORY);
  if (!memory || memory[0] !== 1) throw new Error('exactly one defined memory expected');
  const table = find(SECTION.TABLE);
  if (!table || table[0] !== 1 || table[1] !== FUNCREF) throw new Error('exactly one funcref table expected');
  const elements = limitsAt(table, 2);
  if (elements.max === undefined || elements.max > tableLimit) {
    throw new Error(`the table may grow to ${elements.max ?? 'any number of'} elements, the limit is ${tableLimit}`);
  }
  const globals = find(SECTION.GLOBAL);
  if (!globals || globals[1] !== I32 || globals[2] !== 1) {
    throw new Error('global 0 must be a mutable i32 (the shadow-stack pointer)');
  }
  if (!find(SECTION.IMPORT) || !find(SECTION.EXPORT)) throw new Error('imports and exports expected');
  return { memory: limitsAt(memory, 1), table: elements };
}

/**
 * The edited module and what its checks found. `keepData: false` makes the variant that is filled from a snapshot.
 * Throws an Error that says which shape was expected.
 */
export function editModule(
  wasm: Uint8Array,
  options: { keepData: boolean; tableLimit: number },
): { wasm: Uint8Array<ArrayBuffer>; shape: ModuleShape } {
  const sections = sectionsOf(wasm);
  const shape = checkShape(sections, options.tableLimit);
  const parts: Uint8Array[] = [wasm.subarray(0, HEADER_BYTES)];
  const emit = (id: number, data: Uint8Array) => parts.push(Uint8Array.of(id), leb(data.length), data);
  for (const { id, data } of sections) {
    if (id === SECTION.CUSTOM || id === SECTION.MEMORY) continue;
    if (!options.keepData && (id === SECTION.DATA || id === SECTION.DATA_COUNT)) continue;
    if (id === SECTION.IMPORT) {
      const [count, at] = readLeb(data, 0);
      const memory = [name('env'), name('memory'), Uint8Array.of(KIND.MEMORY, 0), leb(shape.memory.min)];
      emit(id, concat([leb(count + 1), data.subarray(at), ...memory]));
    } else if (id === SECTION.EXPORT) {
      const [count, at] = readLeb(data, 0);
      const table = [name('__table'), Uint8Array.of(KIND.TABLE), leb(0)];
      const stackPointer = [name('__sp'), Uint8Array.of(KIND.GLOBAL), leb(0)];
      emit(id, concat([leb(count + 2), data.subarray(at), ...table, ...stackPointer]));
    } else {
      emit(id, data);
    }
  }
  return { wasm: concat(parts) as Uint8Array<ArrayBuffer>, shape };
}
