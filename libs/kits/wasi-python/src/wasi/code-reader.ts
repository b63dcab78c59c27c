/** Opcodes that callers compare or emit (WebAssembly core specification 1.0, section 5.4). */
export const OP = {
  UNREACHABLE: 0x00,
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
    switch (op) {
      case 0x00: // unreachable
      case 0x05: // else
      case OP.END:
      case OP.RETURN:
        this.isControl = true;
        return;
      case 0x01: // nop
        return;
      case 0x02: // block
      case 0x03: // loop
      case OP.IF:
      case 0x0c: // br
      case 0x0d: // br_if
        this.isControl = true;
        this.unsigned();
        return;
      case 0x0e: // br_table
        this.isControl = true;
        for (let left = this.unsigned(); left >= 0; left--) this.unsigned();
        return;
      case OP.CALL:
        this.immediate = this.unsigned();
        return;
      case OP.CALL_INDIRECT:
        this.immediate = this.unsigned();
        if (this.unsigned() !== 0) throw new UnknownInstruction('a call through another table');
        this.pops = 1;
        return;
      case OP.DROP:
        this.pops = 1;
        return;
      case OP.SELECT:
        this.pops = 3;
        this.pushes = 1;
        return;
      case OP.LOCAL_GET:
      case OP.GLOBAL_GET:
        this.immediate = this.unsigned();
        this.pushes = 1;
        return;
      case OP.LOCAL_SET:
      case OP.GLOBAL_SET:
        this.immediate = this.unsigned();
        this.pops = 1;
        return;
      case OP.LOCAL_TEE:
        this.immediate = this.unsigned();
        this.pops = 1;
        this.pushes = 1;
        return;
      case OP.MEMORY_SIZE:
      case OP.MEMORY_GROW:
        if (this.bytes[this.at++] !== 0) throw new UnknownInstruction('another memory');
        this.pops = op === OP.MEMORY_GROW ? 1 : 0;
        this.pushes = 1;
        return;
      case OP.I32_CONST:
        this.immediate = this.signed();
        this.pushes = 1;
        return;
      case 0x42: // i64.const
        while (this.bytes[this.at++]! & 128);
        this.pushes = 1;
        return;
      case 0x43: // f32.const
      case 0x44: // f64.const
        this.at += op === 0x43 ? 4 : 8;
        this.pushes = 1;
        return;
      case 0xfc: {
        const saturating = this.unsigned();
        if (saturating > 7) throw new UnknownInstruction(`0xfc ${saturating}`);
        this.pops = 1;
        this.pushes = 1;
        return;
      }
      default:
        throw new UnknownInstruction(`0x${op.toString(16)}`);
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
