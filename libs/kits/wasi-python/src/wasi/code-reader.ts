/** Opcodes that callers compare or emit (WebAssembly core specification 1.0, section 5.4). */
export const OP = {
  UNREACHABLE: 0x00,
  NOP: 0x01,
  END: 0x0b,
  RETURN: 0x0f,
  CALL: 0x10,
  CALL_INDIRECT: 0x11,
  DROP: 0x1a,
  LOCAL_GET: 0x20,
  LOCAL_SET: 0x21,
  LOCAL_TEE: 0x22,
  GLOBAL_GET: 0x23,
  GLOBAL_SET: 0x24,
  I32_LOAD8_U: 0x2d,
  I32_STORE8: 0x3a,
  SELECT: 0x1b,
  IF: 0x04,
  MEMORY_SIZE: 0x3f,
  MEMORY_GROW: 0x40,
  I32_CONST: 0x41,
  I32_GT_U: 0x4b,
  I32_LE_U: 0x4d,
  I32_ADD: 0x6a,
  I32_SUB: 0x6b,
  I32_SHR_U: 0x76,
} as const;
const FIRST_STORE = 0x36;
const LAST_STORE = 0x3e;
/** The one-operand instructions from `i32.eqz` (0x45) to `i64.extend32_s` (0xc4); the others in that range take two. */
const UNARY: readonly (readonly [first: number, last: number])[] = [
  [0x45, 0x45],
  [0x50, 0x50],
  [0x67, 0x69],
  [0x79, 0x7b],
  [0x8b, 0x91],
  [0x99, 0x9f],
  [0xa7, 0xc4],
];

type Immediates = 'none' | 'index' | 'labels' | 'table' | 'memory' | 'i32' | 'i64' | 'f32' | 'f64' | 'saturating';

/** The instructions outside of the regular ranges: immediates, operands popped and pushed. */
const OTHERS = new Map<number, readonly [immediates: Immediates, pops: number, pushes: number]>([
  [OP.UNREACHABLE, ['none', 0, 0]],
  [OP.NOP, ['none', 0, 0]],
  [0x02, ['index', 0, 0]], // block
  [0x03, ['index', 0, 0]], // loop
  [OP.IF, ['index', 0, 0]],
  [0x05, ['none', 0, 0]], // else
  [OP.END, ['none', 0, 0]],
  [0x0c, ['index', 0, 0]], // br
  [0x0d, ['index', 0, 0]], // br_if
  [0x0e, ['labels', 0, 0]], // br_table
  [OP.RETURN, ['none', 0, 0]],
  [OP.CALL, ['index', 0, 0]],
  [OP.CALL_INDIRECT, ['table', 1, 0]],
  [OP.DROP, ['none', 1, 0]],
  [OP.SELECT, ['none', 3, 1]],
  [OP.LOCAL_GET, ['index', 0, 1]],
  [OP.LOCAL_SET, ['index', 1, 0]],
  [OP.LOCAL_TEE, ['index', 1, 1]],
  [OP.GLOBAL_GET, ['index', 0, 1]],
  [OP.GLOBAL_SET, ['index', 1, 0]],
  [OP.MEMORY_SIZE, ['memory', 0, 1]],
  [OP.MEMORY_GROW, ['memory', 1, 1]],
  [OP.I32_CONST, ['i32', 0, 1]],
  [0x42, ['i64', 0, 1]],
  [0x43, ['f32', 0, 1]],
  [0x44, ['f64', 0, 1]],
  [0xfc, ['saturating', 1, 1]], // conversions
]);
/** Opcodes up to this one are branches and blocks, except `nop`. */
const LAST_CONTROL = OP.RETURN;

/** The module uses an instruction that CodeReader does not support. */
export class UnknownInstruction extends Error {}

/**
 * Steps through the instructions of a function body and tells for each its position, its first immediate, and how many
 * operands it pops and pushes. Supports WebAssembly 1.0 with sign extension and saturating conversion, which is what CPython
 * on WASI uses. `next` throws UnknownInstruction for anything else, so that no instruction is skipped unseen.
 */
export class CodeReader {
  /** Opcode of the current instruction. */
  opcode = 0;
  start = 0;
  /** First immediate: an index, an i32 constant, or the offset of a memory access. */
  immediate = 0;
  /** True for branches and blocks, after which the operand stack is unknown. */
  isControl = false;
  /** Operands popped and pushed; for calls without the callee's operands. */
  pops = 0;
  pushes = 0;

  constructor(
    private readonly bytes: Uint8Array,
    public at: number,
    private readonly end: number,
  ) {}

  get isStore(): boolean {
    return this.opcode >= FIRST_STORE && this.opcode <= LAST_STORE;
  }

  /** Reads one instruction; false at the end. */
  next(): boolean {
    if (this.at >= this.end) return false;
    const { bytes } = this;
    this.start = this.at;
    const op = (this.opcode = bytes[this.at++]!);
    this.isControl = false;
    this.pops = 0;
    this.pushes = 0;
    if (op >= 0x45 && op <= 0xc4) {
      this.pops = UNARY.some(([first, last]) => op >= first && op <= last) ? 1 : 2;
      this.pushes = 1;
    } else if (op >= 0x28 && op <= LAST_STORE) {
      const alignment = this.unsigned();
      if (alignment > 3) throw new UnknownInstruction(`a memory access with flags ${alignment}`);
      this.immediate = this.unsigned();
      this.pops = op < FIRST_STORE ? 1 : 2;
      this.pushes = op < FIRST_STORE ? 1 : 0;
    } else this.other(op);
    if (this.at > this.end) throw new Error('a function ends inside an instruction');
    return true;
  }

  private other(op: number): void {
    const [immediates, pops, pushes] = OTHERS.get(op) ?? [];
    if (immediates === undefined) throw new UnknownInstruction(`0x${op.toString(16)}`);
    this.readImmediates(immediates);
    this.pops = pops!;
    this.pushes = pushes!;
    this.isControl = op <= LAST_CONTROL && op !== OP.NOP;
  }

  private readImmediates(kind: Immediates): void {
    switch (kind) {
      case 'none':
        return;
      case 'index':
        this.immediate = this.unsigned();
        return;
      case 'labels':
        for (let left = this.unsigned(); left >= 0; left--) this.unsigned();
        return;
      case 'table':
        this.immediate = this.unsigned();
        if (this.unsigned() !== 0) throw new UnknownInstruction('a call through another table');
        return;
      case 'memory':
        if (this.bytes[this.at++] !== 0) throw new UnknownInstruction('another memory');
        return;
      case 'i32':
        this.immediate = this.signed();
        return;
      case 'i64':
        while (this.bytes[this.at++]! & 128);
        return;
      case 'f32':
      case 'f64':
        this.at += kind === 'f32' ? 4 : 8;
        return;
      case 'saturating': {
        const saturating = this.unsigned();
        if (saturating > 7) throw new UnknownInstruction(`0xfc ${saturating}`);
      }
    }
  }

  private unsigned(): number {
    return this.leb() >>> 0;
  }

  private signed(): number {
    const start = this.at;
    const value = this.leb();
    const bits = (this.at - start) * 7;
    return bits < 32 && this.bytes[this.at - 1]! & 64 ? value | (-1 << bits) : value;
  }

  /** The low 32 bits of a LEB128 number, without its sign. */
  private leb(): number {
    let value = 0;
    let shift = 0;
    let byte: number;
    do {
      byte = this.bytes[this.at++]!;
      value |= (byte & 127) << shift;
      shift += 7;
    } while (byte & 128);
    return value;
  }
}
