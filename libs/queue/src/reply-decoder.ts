import { Decoder, RESP_TYPES } from 'ioredis/built/resp/decoder.js';
import { SimpleError } from 'ioredis/built/resp/errors.js';

const { ARRAY, BLOB_ERROR, BLOB_STRING, MAP, PUSH, SET, VERBATIM_STRING } = RESP_TYPES;
const LISTS: ReadonlySet<number | undefined> = new Set([ARRAY, SET, MAP, PUSH]);
const TEXTS: ReadonlySet<number | undefined> = new Set([BLOB_STRING, VERBATIM_STRING, BLOB_ERROR]);
const [CR, MINUS, ZERO, TRUE] = Buffer.from('\r-0t');
/** Bytes of `txt:` before a verbatim text. */
const FORMAT_BYTES = 4;

/** A list, set, map or push that is not complete. */
interface OpenList {
  readonly type: number | undefined;
  readonly items: unknown[];
  left: number;
}

/** The replies on one connection, in RESP2 or RESP3, as `replyMapping: 'legacy'` of ioredis has them: maps are lists of names and values. */
class ReplyReader {
  /** Outermost first. */
  readonly #open: OpenList[] = [];
  /** What has arrived of a line or text that is not complete. */
  #parts: Buffer[] = [];
  #arrived = 0;
  /** Bytes of that text; 0 when its length is not known. */
  #needed = 0;

  constructor(private readonly to: Decoder) {}

  /** @throws Error for bytes that are not a reply; the connection cannot be used any more */
  read(chunk: Buffer): void {
    this.#arrived += chunk.length;
    this.#parts.push(chunk);
    if (this.#arrived < this.#needed) return;
    const data = this.#parts.length === 1 ? chunk : Buffer.concat(this.#parts);
    let at = 0;
    let next = 0;
    for (; at < data.length; at = next) {
      let end = at + 1;
      while (end < data.length && data[end] !== CR) end += 1;
      next = end + 2;
      if (next > data.length) break;
      const type = data[at];
      let value: unknown = null;
      if (LISTS.has(type)) {
        const left = integerIn(data, at + 1, end) * (type === MAP ? 2 : 1);
        if (left > 0) this.#open.push({ type, items: [], left });
        if (left > 0) continue;
        if (left === 0) value = [];
      } else if (TEXTS.has(type)) {
        const length = integerIn(data, at + 1, end);
        const from = next + (type === VERBATIM_STRING ? FORMAT_BYTES : 0);
        if (length >= 0) next += length + 2;
        if (next > data.length) break;
        if (length >= 0) value = data.subarray(from, next - 2);
        if (type === BLOB_ERROR) value = newError(String(value));
      } else {
        const read = LINES[type!];
        if (!read) throw new Error(`A reply of Redis has the unknown type ${type}`);
        value = read(data, at + 1, end);
      }
      this.#complete(value);
    }
    const isOver = at >= data.length;
    this.#parts = isOver ? [] : [data.subarray(at)];
    this.#arrived = isOver ? 0 : data.length - at;
    this.#needed = isOver ? 0 : next - at;
  }

  /** Adds a value to the list that it is in, or passes it on. */
  #complete(value: unknown): void {
    for (let list = this.#open.at(-1); list; list = this.#open.at(-1)) {
      list.items.push(value);
      list.left -= 1;
      if (list.left > 0) return;
      this.#open.pop();
      value = list.items;
      if (list.type === PUSH) return void this.to.onPush(value);
    }
    if (value instanceof SimpleError) this.to.onErrorReply(value);
    else this.to.onReply(value);
  }
}

/** The integer on a line, as exact as a number is. */
function integerIn(data: Buffer, from: number, end: number): number {
  const isNegative = data[from] === MINUS;
  let value = 0;
  for (let at = isNegative ? from + 1 : from; at < end; at += 1) value = value * 10 + data[at]! - ZERO!;
  return isNegative ? -value : value;
}

/** Its declaration leaves out the message. */
const newError = (message: string): SimpleError => Reflect.construct(SimpleError, [message]) as SimpleError;

type LineReader = (data: Buffer, from: number, end: number) => unknown;
const bytesIn: LineReader = (data, from, end) => data.subarray(from, end);

/** Values that are one line. */
const LINES: Partial<Record<number, LineReader>> = {
  [RESP_TYPES.NUMBER]: integerIn,
  [RESP_TYPES.SIMPLE_STRING]: bytesIn,
  [RESP_TYPES.DOUBLE]: bytesIn,
  [RESP_TYPES.NULL]: () => null,
  [RESP_TYPES.BOOLEAN]: (data, from) => (data[from] === TRUE ? 1 : 0),
  [RESP_TYPES.BIG_NUMBER]: (data, from, end) => data.toString('latin1', from, end),
  [RESP_TYPES.SIMPLE_ERROR]: (data, from, end) => newError(data.toString('utf8', from, end)),
};

const readers = new WeakMap<Decoder, ReplyReader>();

/**
 * Decodes the replies of all connections of this process in one loop. The decoder of ioredis takes about a hundred function calls for a reply,
 * most of them to read its own private fields.
 */
export function decodeInOneLoop(): void {
  Decoder.prototype.write = function write(this: Decoder, chunk: Buffer): void {
    let reader = readers.get(this);
    if (!reader) readers.set(this, (reader = new ReplyReader(this)));
    reader.read(chunk);
  };
}
