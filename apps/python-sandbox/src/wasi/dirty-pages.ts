/**
 * Makes a module note which parts of its memory it writes, so that the next run copies those parts again and not all of
 * them: some hundred pages of 4 KiB instead of five thousand. Every store first sets a byte of a second memory, which no
 * instruction of the guest can name otherwise: a guest cannot hide a write.
 *
 * Stores into a frame of the shadow stack are left as they are, for there are very many of them; the stack is copied
 * again as a whole. Such a store is one through a local whose only value is `stack pointer - N`, below N bytes from it.
 * Each new value of the stack pointer is checked to be at most where the stack begins, so the frame lies in the stack or,
 * below zero, at the end of the address space, where there is no memory (it ends at 2 GiB) and the store traps.
 *
 * The same walk shows that nothing but memory and stack pointer can change: no other global is set, no table or segment
 * is touched. So an instance whose memory and stack pointer are put back is a new instance.
 */
import { CodeReader, OP, UnknownInstruction } from './code-reader.js';
import { ByteWriter, KIND, readLeb, SECTION, type Section, TYPE } from './wasm-binary.js';

/** What one byte of the second memory stands for, as a power of two. */
const UNIT_BITS = 12;
export const UNIT_BYTES = 1 << UNIT_BITS;
/** A store that begins in a unit may end so many bytes behind it. */
export const LARGEST_STORE = 8;

/** Flag of a memory access that names its memory. */
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

/**
 * The code section with marks, or null when the module uses an instruction of which this does not know what it writes.
 * `stackTop` is the first value of global 0. The module needs a second memory then, of a byte for each unit of the first.
 */
export function markDirtyPages(sections: readonly Section[], stackTop: number): Uint8Array | null {
  const data = (id: number) => sections.find((section) => section.id === id)?.data ?? Uint8Array.of(0);
  const types = signaturesOf(data(SECTION.TYPE));
  const [imported, defined] = [importedFunctions(data(SECTION.IMPORT)), indices(data(SECTION.FUNCTION))];
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
      const tracker = new BodyTracker(code, start, at, { own: functions[index]!, functions, types, stackTop }, body);
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
  stackTop: number;
}

class BodyTracker {
  private readonly codeStart: number;
  private readonly groups: number;
  private readonly groupsStart: number;
  private readonly ownLocals: number;
  /** Added locals: their types, and the index of each. */
  private readonly added: number[] = [];
  private readonly scratch = new Map<number | 'address', number>();
  /** Locals that are assigned once, and those of them that hold the address of a frame, with its size. */
  private readonly assignments = new Map<number, number>();
  private readonly frames = new Map<number, number>();
  /** Of each operand known to lie on the stack: the size of the frame it points to, or OTHER. */
  private stack: number[] = [];

  constructor(
    private readonly code: Uint8Array,
    start: number,
    private readonly end: number,
    private readonly context: BodyContext,
    /** The instructions, with what comes before some of them. */
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

  track(): void {
    const first = new CodeReader(this.code, this.codeStart, this.end);
    while (first.next()) {
      if (first.opcode !== OP.LOCAL_SET && first.opcode !== OP.LOCAL_TEE) continue;
      this.assignments.set(first.immediate, (this.assignments.get(first.immediate) ?? 0) + 1);
    }
    const reader = new CodeReader(this.code, this.codeStart, this.end);
    let copied = this.codeStart;
    /** Progress through `global.get 0`, `i32.const N`, `i32.sub`: the address of a frame. */
    let step = 0;
    let size = OTHER;
    while (reader.next()) {
      const { opcode, immediate } = reader;
      const isFrame = opcode === OP.I32_SUB && step === 2 && size > 0 && size <= this.context.stackTop;
      if (opcode === OP.GLOBAL_GET && immediate === 0) step = 1;
      else if (opcode === OP.I32_CONST && step === 1) [step, size] = [2, immediate];
      else step = 0;
      if (this.needsGuard(reader)) {
        this.body.copy(this.code, copied, reader.start);
        copied = reader.start;
        if (reader.isStore) this.mark(STORES[opcode - FIRST_STORE]![1], immediate);
        else this.checkStack();
      }
      this.follow(reader, isFrame ? size : OTHER);
    }
    this.body.copy(this.code, copied, this.end);
  }

  /** Writes the whole function: its locals, those added, and the tracked instructions. */
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
      if (reader.immediate !== 0) throw new UnknownInstruction('a global beside the stack pointer is set');
      return true;
    }
    if (!reader.isStore) return false;
    const [bytes] = STORES[reader.opcode - FIRST_STORE]!;
    return reader.immediate + bytes > (this.stack.at(-2) ?? OTHER);
  }

  /** Sets the byte of the unit in which the store begins. A store past all memory traps here instead. */
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

  /** Traps as any overflow of the stack does, by an access out of bounds, when the new stack pointer is above the stack. */
  private checkStack(): void {
    const pointer = this.local('address', TYPE.I32);
    this.put(OP.LOCAL_TEE, pointer);
    this.put(OP.I32_CONST);
    this.body.signedLeb(this.context.stackTop);
    this.put(OP.I32_GT_U);
    this.put(OP.IF, NO_RESULT);
    this.put(OP.I32_CONST, MINUS_ONE);
    this.put(OP.I32_LOAD8_U, 0, 0);
    this.put(OP.DROP);
    this.put(OP.END);
    this.put(OP.LOCAL_GET, pointer);
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

  /** Follows the operands through one instruction. What is not known to be a frame is OTHER. */
  private follow({ opcode, immediate, isControl, pops, pushes }: CodeReader, result: number): void {
    if (isControl) {
      this.stack = [];
      return;
    }
    const callee = this.calleeOf(opcode, immediate);
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

  private calleeOf(opcode: number, index: number): Signature {
    if (opcode === OP.CALL) return this.context.functions[index]!;
    return opcode === OP.CALL_INDIRECT ? this.context.types[index]! : NO_CALL;
  }
}

function signaturesOf(data: Uint8Array): Signature[] {
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

function indices(data: Uint8Array): number[] {
  let [count, at] = readLeb(data, 0);
  const found: number[] = [];
  for (; count > 0; count--) {
    const [index, next] = readLeb(data, at);
    found.push(index);
    at = next;
  }
  return found;
}

/** Type indices of the imported functions. A WASI command imports nothing else. */
function importedFunctions(data: Uint8Array): number[] {
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
