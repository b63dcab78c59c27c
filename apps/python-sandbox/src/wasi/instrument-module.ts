/**
 * Edits a WASI CPython "command" module, so that its memory can be kept and its functions entered from outside. No
 * toolchain: the sections are walked and copied as they are, except
 * - custom sections (debug info, half of the file): dropped;
 * - memory: dropped and imported as `env.memory` instead, because the host chooses its maximum for each run. It is
 *   appended after the function imports, which moves no function index;
 * - exports: `__table` (table 0) and `__sp` (global 0, the shadow-stack pointer) are added;
 * - data: dropped in the second variant, whose contents come from the snapshot;
 * - code: in the second variant it notes what it writes, in `env.written` (dirty-pages.ts).
 */
import { OP } from './code-reader.js';
import { markDirtyPages } from './dirty-pages.js';
import {
  concat,
  KIND,
  leb,
  MODULE_HEADER,
  name,
  readLeb,
  SECTION,
  type Section,
  sectionsOf,
  TYPE,
} from './wasm-binary.js';

export interface Limits {
  min: number;
  max?: number;
}

/** What the checks found out about a module. Memory in pages, table in elements. */
export interface ModuleShape {
  memory: Limits;
  table: Limits;
}

export interface InstrumentedModule {
  wasm: Uint8Array<ArrayBuffer>;
  shape: ModuleShape;
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
  if (!table || table[0] !== 1 || table[1] !== TYPE.FUNCREF) throw new Error('exactly one funcref table expected');
  const elements = limitsAt(table, 2);
  if (elements.max === undefined || elements.max > tableLimit) {
    throw new Error(`the table may grow to ${elements.max ?? 'any number of'} elements, the limit is ${tableLimit}`);
  }
  const globals = find(SECTION.GLOBAL);
  if (!globals || globals[1] !== TYPE.I32 || globals[2] !== 1) {
    throw new Error('global 0 must be a mutable i32 (the shadow-stack pointer)');
  }
  if (!find(SECTION.IMPORT) || !find(SECTION.EXPORT)) throw new Error('imports and exports expected');
  return { memory: limitsAt(memory, 1), table: elements };
}

/** First value of the shadow-stack pointer. */
function stackTopOf(sections: readonly Section[]): number {
  const globals = sections.find(({ id }) => id === SECTION.GLOBAL)!.data;
  if (globals[3] !== OP.I32_CONST) throw new Error('the shadow-stack pointer must begin as a constant');
  return readLeb(globals, 4)[0];
}

const importOf = (field: string, pages: number) =>
  concat([name('env'), name(field), Uint8Array.of(KIND.MEMORY, 0), leb(pages)]);
const exportOf = (field: string, kind: number) => concat([name(field), Uint8Array.of(kind), leb(0)]);

/** The variant in which the interpreter boots. Throws an Error that says which shape was expected. */
export function bootModule(wasm: Uint8Array, tableLimit: number): InstrumentedModule {
  const sections = sectionsOf(wasm);
  const shape = checkShape(sections, tableLimit);
  return { wasm: edited(sections, [importOf('memory', shape.memory.min)]), shape };
}

/**
 * The variant that every run uses: without data, and with marks of its writes where `track` can follow these.
 * Throws an Error that says which shape was expected.
 */
export function codeModule(wasm: Uint8Array, tableLimit: number, track = markDirtyPages): InstrumentedModule {
  const all = sectionsOf(wasm);
  const shape = checkShape(all, tableLimit);
  const code = track(all, stackTopOf(all));
  const memories = [importOf('memory', shape.memory.min), ...(code ? [importOf('written', 1)] : [])];
  const sections = all
    .filter(({ id }) => id !== SECTION.DATA && id !== SECTION.DATA_COUNT)
    .map((section) => (code && section.id === SECTION.CODE ? { id: section.id, data: code } : section));
  return { wasm: edited(sections, memories), shape };
}

function edited(sections: readonly Section[], memories: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [MODULE_HEADER];
  const emit = (id: number, data: Uint8Array) => parts.push(Uint8Array.of(id), leb(data.length), data);
  for (const { id, data } of sections) {
    if (id === SECTION.CUSTOM || id === SECTION.MEMORY) continue;
    if (id === SECTION.IMPORT) emit(id, extended(data, memories));
    else if (id === SECTION.EXPORT) {
      emit(id, extended(data, [exportOf('__table', KIND.TABLE), exportOf('__sp', KIND.GLOBAL)]));
    } else emit(id, data);
  }
  return concat(parts);
}

/** A section that is a list, with more entries. */
function extended(data: Uint8Array, entries: readonly Uint8Array[]): Uint8Array {
  const [count, at] = readLeb(data, 0);
  return concat([leb(count + entries.length), data.subarray(at), ...entries]);
}
