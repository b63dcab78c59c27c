/**
 * Instruments a module so that it records which parts of its memory it writes. The next run then restores only those parts:
 * about a hundred units of 4 KiB instead of five thousand. Every store first sets a byte in a second memory that no other
 * instruction of the guest can access, so a guest cannot hide a write.
 *
 * Stores into a frame of the shadow stack are not instrumented, because there are very many; the stack is restored as a
 * whole. Such a store goes through a local with the only value `stack pointer - N`, at an offset below N. Each new value of
 * the stack pointer is checked to be at most the top of the stack. So a frame is either in the stack or, below zero, at the
 * end of the address space, where there is no memory (it ends at 2 GiB) and the store traps.
 *
 * The same pass proves that only memory and stack pointer can change: no other global is set, and no table or segment is
 * modified. Restoring both therefore makes an instance as good as new.
 *
 * The same pass bounds the growth of the memory. The maximum of a memory cannot change, but the limit of a run is known only when the
 * run arrives, after its interpreter was restored. So every `memory.grow` first compares its result with a global that the host sets
 * before the run and that no instruction of the guest can set.
 */
import { CodeReader, OP, UnknownInstruction } from './code-reader.js';
import { ByteWriter, KIND, readLeb, SECTION, type Section, TYPE } from './wasm-binary.js';

/** Size of the unit that one byte of the second memory represents, as a power of two. */
const UNIT_BITS = 12;
/** Size of a unit in bytes. */
export const UNIT_BYTES = 1 << UNIT_BITS;
/** A store that starts in a unit may extend up to this many bytes beyond it. */
export const LARGEST_STORE = 8;

/** Flag of a memory access with an explicit memory index. */
const NAMES_MEMORY = 0x40;
const MARKS = 1;
const NO_RESULT = 0x40;
/** -1 in LEB128. */
const MINUS_ONE = 0x7f;
const FIRST_STORE = 0x36;
const OTHER = -1;
/** Bytes and type of the value of each store, from `i32.store` (0x36) to `i64.store32` (0x3e). */
const STORES = [
  [4, TYPE.I32],
  [8, TYPE.I64],
  [4, TYPE.F32],
  [8, TYPE.F64],
  [1, TYPE.I32],
  [2, TYPE.I32],
  [1, TYPE.I64],
  [2, TYPE.I64],
  [4, TYPE.I64],
] as const;

interface Signature {
  params: number;
  results: number;
}

const NO_CALL: Signature = { params: 0, results: 0 };

/** The globals that instrumented code uses. */
interface CodeGlobals {
  /** Initial value of global 0, the shadow-stack pointer. */
  stackTop: number;
  /** Index of an added mutable i32: the most pages to which the memory may grow, at least its size. */
  maxPages: number;
}

/**
 * Returns the instrumented code section, or null if the module uses an instruction with unknown writes. An instrumented module
 * imports a second memory with one byte per unit of the first, and has the global `maxPages`.
 */
export function markDirtyPages(sections: readonly Section[], globals: CodeGlobals): Uint8Array | null {
  const data = (id: number) => sections.find((section) => section.id === id)?.data ?? Uint8Array.of(0);
  const types = readSignatures(data(SECTION.TYPE));
  const [imported, defined] = [readImportedFunctions(data(SECTION.IMPORT)), readIndices(data(SECTION.FUNCTION))];
  const functions = [...imported, ...defined].map((type) => types[type]!);
  const code = data(SECTION.CODE);
  let [count, at] = readLeb(code, 0);
  const out = new ByteWriter(2 * code.length);
  const body = new ByteWriter(64 * 1024);
  out.leb(count);
  try {
    for (let index = imported.length; count > 0; count--, index++) {
      const [length, start] = readLeb(code, at);
      at = start + length;
      body.clear();
      const tracker = new BodyTracker(code, start, at, { own: functions[index]!, functions, types, globals }, body);
      tracker.track();
      tracker.emit(out);
    }
  } catch (error) {
    if (error instanceof UnknownInstruction) return null;
    throw error;
  }
  return out.written;
}

interface BodyContext {
  own: Signature;
  functions: readonly Signature[];
  types: readonly Signature[];
  globals: CodeGlobals;
}

/**
 * Instruments one function body. `track` walks its instructions and simulates the operand stack, to tell which stores go to a
 * frame of the shadow stack; `emit` writes the result with the added locals.
 */
class BodyTracker {
  private readonly codeStart: number;
  private readonly groups: number;
  private readonly groupsStart: number;
  private readonly ownLocals: number;
  /** Types of the added locals, and their indices by purpose. */
  private readonly added: number[] = [];
  private readonly scratch = new Map<number | 'address', number>();
  /** Assignments per local, and the size of the frame that a local points to. */
  private readonly assignments = new Map<number, number>();
  private readonly frames = new Map<number, number>();
  /** For each known operand on the stack the size of the frame it points to, or OTHER. */
  private stack: number[] = [];

  constructor(
    private readonly code: Uint8Array,
    start: number,
    private readonly end: number,
    private readonly context: BodyContext,
    /** Receives the instrumented instructions. */
    private readonly body: ByteWriter,
  ) {
    let locals = context.own.params;
    let at: number;
    [this.groups, at] = readLeb(code, start);
    this.groupsStart = at;
    for (let left = this.groups; left > 0; left--) {
      const [count, typeAt] = readLeb(code, at);
      locals += count;
      at = typeAt + 1;
    }
    this.codeStart = at;
    this.ownLocals = locals;
  }

  /** Copies the instructions to `body`, with a guard before each store, growth and new stack pointer that needs one. */
  track(): void {
    const first = new CodeReader(this.code, this.codeStart, this.end);
    while (first.next()) {
      if (first.opcode !== OP.LOCAL_SET && first.opcode !== OP.LOCAL_TEE) continue;
      this.assignments.set(first.immediate, (this.assignments.get(first.immediate) ?? 0) + 1);
    }
    const reader = new CodeReader(this.code, this.codeStart, this.end);
    let copied = this.codeStart;
    /** Progress through `global.get 0`, `i32.const N`, `i32.sub` that computes the address of a frame. */
    let step = 0;
    let size = OTHER;
    while (reader.next()) {
      const { opcode, immediate } = reader;
      const isFrame = opcode === OP.I32_SUB && step === 2 && size > 0 && size <= this.context.globals.stackTop;
      if (opcode === OP.GLOBAL_GET && immediate === 0) step = 1;
      else if (opcode === OP.I32_CONST && step === 1) [step, size] = [2, immediate];
      else step = 0;
      if (this.needsGuard(reader)) {
        this.body.copy(this.code, copied, reader.start);
        copied = reader.start;
        if (reader.isStore) this.mark(STORES[opcode - FIRST_STORE]![1], immediate);
        else if (opcode === OP.MEMORY_GROW) this.boundGrowth();
        else this.checkStack();
      }
      this.follow(reader, isFrame ? size : OTHER);
    }
    this.body.copy(this.code, copied, this.end);
  }

  /** Writes the function: its locals, the added ones, and the instrumented instructions. */
  emit(out: ByteWriter): void {
    const locals = new ByteWriter(64);
    locals.leb(this.groups + this.added.length);
    locals.copy(this.code, this.groupsStart, this.codeStart);
    for (const type of this.added) {
      locals.byte(1);
      locals.byte(type);
    }
    out.leb(locals.length + this.body.length);
    out.copy(locals.written);
    out.copy(this.body.written);
  }

  private needsGuard(reader: CodeReader): boolean {
    if (reader.opcode === OP.GLOBAL_SET) {
      if (reader.immediate !== 0) throw new UnknownInstruction('a global other than the stack pointer is set');
      return true;
    }
    if (reader.opcode === OP.MEMORY_GROW) return true;
    if (!reader.isStore) return false;
    const [bytes] = STORES[reader.opcode - FIRST_STORE]!;
    return reader.immediate + bytes > (this.stack.at(-2) ?? OTHER);
  }

  /** Sets the byte of the unit in which the store starts. A store out of bounds traps here already. */
  private mark(type: number, offset: number): void {
    const [address, value] = [this.local('address', TYPE.I32), this.local(type, type)];
    this.put(OP.LOCAL_SET, value);
    this.put(OP.LOCAL_TEE, address);
    if (offset > 0) {
      this.put(OP.I32_CONST);
      this.body.signedLeb(offset | 0);
      this.put(OP.I32_ADD);
    }
    this.put(OP.I32_CONST, UNIT_BITS);
    this.put(OP.I32_SHR_U);
    this.put(OP.I32_CONST, 1);
    this.put(OP.I32_STORE8, NAMES_MEMORY, MARKS, 0);
    this.put(OP.LOCAL_GET, address);
    this.put(OP.LOCAL_GET, value);
  }

  /** Traps with an access out of bounds, like any stack overflow, if the new stack pointer is above the stack. */
  private checkStack(): void {
    const pointer = this.local('address', TYPE.I32);
    this.put(OP.LOCAL_TEE, pointer);
    this.put(OP.I32_CONST);
    this.body.signedLeb(this.context.globals.stackTop);
    this.put(OP.I32_GT_U);
    this.put(OP.IF, NO_RESULT);
    this.put(OP.I32_CONST, MINUS_ONE);
    this.put(OP.I32_LOAD8_U, 0, 0);
    this.put(OP.DROP);
    this.put(OP.END);
    this.put(OP.LOCAL_GET, pointer);
  }

  /** Replaces a number of pages that would exceed the bound by -1, with which `memory.grow` always fails. */
  private boundGrowth(): void {
    const pages = this.local('address', TYPE.I32);
    this.put(OP.LOCAL_TEE, pages);
    this.put(OP.I32_CONST, MINUS_ONE);
    this.put(OP.LOCAL_GET, pages);
    this.put(OP.GLOBAL_GET, this.context.globals.maxPages);
    this.put(OP.MEMORY_SIZE, 0);
    this.put(OP.I32_SUB);
    this.put(OP.I32_LE_U);
    this.put(OP.SELECT);
  }

  private put(opcode: number, ...immediates: number[]): void {
    this.body.byte(opcode);
    for (const immediate of immediates) this.body.leb(immediate);
  }

  private local(key: number | 'address', type: number): number {
    const known = this.scratch.get(key);
    if (known !== undefined) return known;
    const index = this.ownLocals + this.added.length;
    this.added.push(type);
    this.scratch.set(key, index);
    return index;
  }

  /** Applies one instruction to the operand stack. */
  private follow({ opcode, immediate, isControl, pops, pushes }: CodeReader, result: number): void {
    if (isControl) {
      this.stack = [];
      return;
    }
    const callee = this.callee(opcode, immediate);
    let top = OTHER;
    for (let left = pops + callee.params; left > 0; left--) top = this.stack.pop() ?? OTHER;
    if (opcode === OP.LOCAL_SET || opcode === OP.LOCAL_TEE) {
      const isOnly = this.assignments.get(immediate) === 1 && immediate >= this.context.own.params;
      if (isOnly && top !== OTHER) this.frames.set(immediate, top);
    }
    let pushed = result;
    if (opcode === OP.LOCAL_GET) pushed = this.frames.get(immediate) ?? OTHER;
    else if (opcode === OP.LOCAL_TEE) pushed = top;
    for (let left = pushes + callee.results; left > 0; left--) this.stack.push(pushed);
  }

  private callee(opcode: number, index: number): Signature {
    if (opcode === OP.CALL) return this.context.functions[index]!;
    return opcode === OP.CALL_INDIRECT ? this.context.types[index]! : NO_CALL;
  }
}

function readSignatures(data: Uint8Array): Signature[] {
  let [count, at] = readLeb(data, 0);
  const signatures: Signature[] = [];
  for (; count > 0; count--) {
    const [params, paramsAt] = readLeb(data, at + 1);
    const [results, resultsAt] = readLeb(data, paramsAt + params);
    signatures.push({ params, results });
    at = resultsAt + results;
  }
  return signatures;
}

function readIndices(data: Uint8Array): number[] {
  let [count, at] = readLeb(data, 0);
  const found: number[] = [];
  for (; count > 0; count--) {
    const [index, next] = readLeb(data, at);
    found.push(index);
    at = next;
  }
  return found;
}

/** Type indices of the imported functions. A WASI command imports only functions. */
function readImportedFunctions(data: Uint8Array): number[] {
  let [count, at] = readLeb(data, 0);
  const found: number[] = [];
  for (; count > 0; count--) {
    for (let names = 2; names > 0; names--) {
      const [length, start] = readLeb(data, at);
      at = start + length;
    }
    if (data[at] !== KIND.FUNCTION) throw new Error('only functions may be imported');
    const [type, next] = readLeb(data, at + 1);
    found.push(type);
    at = next;
  }
  return found;
}
