/**
 * Instruments a WASI CPython "command" module so that the host can keep its memory and call its functions. It needs no
 * toolchain: sections are copied unchanged, except for
 * - custom sections (debug info, half of the file) are dropped;
 * - the memory is imported as `env.memory` instead, because the host chooses its maximum for each run. The import
 *   comes after the function imports, so that no function index changes;
 * - the exports gain `__table` (table 0) and `__sp` (global 0, the shadow-stack pointer);
 * - data, dropped in the code module, with memory from the snapshot;
 * - code in the code module records its writes in `env.written` and grows its memory only up to the added global
 *   `__max_pages` (dirty-pages.ts).
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
  readSections,
  TYPE,
} from './wasm-binary.js';

interface Limits {
  min: number;
  max?: number;
}

interface InstrumentedModule {
  wasm: Uint8Array<ArrayBuffer>;
  /** Memory that the module starts with. */
  minPages: number;
}

function readLimits(data: Uint8Array, at: number): Limits {
  const hasMax = (data[at]! & 1) === 1;
  const [min, next] = readLeb(data, at + 1);
  return hasMax ? { min, max: readLeb(data, next)[0] } : { min };
}

/** @returns the pages that the module starts with. @throws Error for a module with a shape that does not suit the snapshot technique */
function checkShape(sections: readonly Section[], tableLimit: number): number {
  const find = (id: number) => sections.find((section) => section.id === id)?.data;
  if (find(SECTION.START)) throw new Error('a start section is not allowed: its code would run at instantiation');
  const memory = find(SECTION.MEMORY);
  if (!memory || memory[0] !== 1) throw new Error('exactly one defined memory expected');
  const table = find(SECTION.TABLE);
  if (!table || table[0] !== 1 || table[1] !== TYPE.FUNCREF) throw new Error('exactly one funcref table expected');
  const elements = readLimits(table, 2);
  if (elements.max === undefined || elements.max > tableLimit) {
    throw new Error(`the table may grow to ${elements.max ?? 'any number of'} elements, the limit is ${tableLimit}`);
  }
  const globals = find(SECTION.GLOBAL);
  if (!globals || globals[1] !== TYPE.I32 || globals[2] !== 1) {
    throw new Error('global 0 must be a mutable i32 (the shadow-stack pointer)');
  }
  if (!find(SECTION.IMPORT) || !find(SECTION.EXPORT)) throw new Error('imports and exports expected');
  return readLimits(memory, 1).min;
}

/** Initial value of the shadow-stack pointer. */
function readStackTop(sections: readonly Section[]): number {
  const globals = sections.find(({ id }) => id === SECTION.GLOBAL)!.data;
  if (globals[3] !== OP.I32_CONST) throw new Error('the shadow-stack pointer must be initialized with a constant');
  return readLeb(globals, 4)[0];
}

/** Number of globals, none of which is imported: a WASI command imports only functions. */
function countGlobals(sections: readonly Section[]): number {
  return readLeb(sections.find(({ id }) => id === SECTION.GLOBAL)!.data, 0)[0];
}

const memoryImport = (field: string, pages: number) =>
  concat([name('env'), name(field), Uint8Array.of(KIND.MEMORY, 0), leb(pages)]);
const exportEntry = (field: string, kind: number, index = 0) => concat([name(field), Uint8Array.of(kind), leb(index)]);
/** A mutable i32 that is 0 until the host sets it. */
const HOST_GLOBAL = Uint8Array.of(TYPE.I32, 1, OP.I32_CONST, 0, OP.END);

/** The variant in which the interpreter boots. @throws Error that tells which shape was expected */
export function bootModule(wasm: Uint8Array, tableLimit: number): InstrumentedModule {
  const sections = readSections(wasm);
  const minPages = checkShape(sections, tableLimit);
  return { wasm: assemble(sections, [memoryImport('memory', minPages)]), minPages };
}

/**
 * The variant for runs: without data, and with marks of its writes and a bound of its growth if `track` supports all of its
 * instructions.
 * @throws Error that tells which shape was expected
 */
export function codeModule(wasm: Uint8Array, tableLimit: number, track = markDirtyPages): InstrumentedModule {
  const all = readSections(wasm);
  const minPages = checkShape(all, tableLimit);
  const maxPages = countGlobals(all);
  const code = track(all, { stackTop: readStackTop(all), maxPages });
  const memory = memoryImport('memory', minPages);
  const sections = all.filter(({ id }) => id !== SECTION.DATA && id !== SECTION.DATA_COUNT);
  if (!code) return { wasm: assemble(sections, [memory]), minPages };
  const instrumented = sections.map(({ id, data }) => {
    if (id === SECTION.CODE) return { id, data: code };
    return { id, data: id === SECTION.GLOBAL ? appendEntries(data, [HOST_GLOBAL]) : data };
  });
  const bound = exportEntry('__max_pages', KIND.GLOBAL, maxPages);
  return { wasm: assemble(instrumented, [memory, memoryImport('written', 1)], [bound]), minPages };
}

function assemble(
  sections: readonly Section[],
  memories: readonly Uint8Array[],
  exported: readonly Uint8Array[] = [],
): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [MODULE_HEADER];
  const emit = (id: number, data: Uint8Array) => parts.push(Uint8Array.of(id), leb(data.length), data);
  for (const { id, data } of sections) {
    if (id === SECTION.CUSTOM || id === SECTION.MEMORY) continue;
    if (id === SECTION.IMPORT) emit(id, appendEntries(data, memories));
    else if (id === SECTION.EXPORT) {
      const own = [exportEntry('__table', KIND.TABLE), exportEntry('__sp', KIND.GLOBAL), ...exported];
      emit(id, appendEntries(data, own));
    } else emit(id, data);
  }
  return concat(parts);
}

/** Appends entries to a section that is a list. */
function appendEntries(data: Uint8Array, entries: readonly Uint8Array[]): Uint8Array {
  const [count, at] = readLeb(data, 0);
  return concat([leb(count + entries.length), data.subarray(at), ...entries]);
}
