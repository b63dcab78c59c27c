import { Decoder, RESP_TYPES } from 'ioredis/built/resp/decoder.js';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { decodeInOneLoop } from './reply-decoder.js';

const ofIoredis = Decoder.prototype.write;
decodeInOneLoop();
const ours = Decoder.prototype.write;

/** As ioredis has it for `replyMapping: 'legacy'`. */
const LEGACY = {
  [RESP_TYPES.SIMPLE_STRING]: Buffer,
  [RESP_TYPES.BLOB_STRING]: Buffer,
  [RESP_TYPES.VERBATIM_STRING]: Buffer,
  [RESP_TYPES.BIG_NUMBER]: String,
  [RESP_TYPES.DOUBLE]: Buffer,
  [RESP_TYPES.BOOLEAN]: Number,
  [RESP_TYPES.MAP]: Array,
  [RESP_TYPES.SET]: Array,
};

/** Everything that a decoder passes on for these chunks. */
function decoded(write: Decoder['write'], chunks: readonly Buffer[]): string[] {
  const seen: string[] = [];
  const note = (kind: string) => (value: unknown) =>
    void seen.push(
      `${kind} ${JSON.stringify(value, (_, one: unknown) => (one instanceof Error ? [one.name, one.message] : one))}`,
    );
  const decoder = new Decoder({
    onReply: note('reply'),
    onErrorReply: note('error'),
    onPush: note('push'),
    getTypeMapping: () => LEGACY as never,
  });
  for (const chunk of chunks) write.call(decoder, chunk);
  return seen;
}

const line = fc.string({ unit: fc.constantFrom('a', 'Z', '9', ' ', '-', 'ß', '€'), maxLength: 12 });
const blob = fc.string({ unit: fc.constantFrom('a', '\r', '\n', '$', '0', '😀'), maxLength: 40 });
const textOf = (type: string, text: string): string => `${type}${Buffer.byteLength(text)}\r\n${text}\r\n`;

const { reply } = fc.letrec<{ reply: string; list: string }>((tie) => ({
  reply: fc.oneof(
    { depthSize: 'small' },
    fc.integer().map((number) => `:${number}\r\n`),
    line.map((text) => `+${text}\r\n`),
    line.map((text) => `-ERR ${text}\r\n`),
    blob.map((text) => textOf('$', text)),
    blob.map((text) => textOf('=', `txt:${text}`)),
    fc.double({ noNaN: true }).map((number) => `,${number}\r\n`),
    fc.bigInt().map((number) => `(${number}\r\n`),
    fc.constantFrom('_\r\n', '#t\r\n', '#f\r\n', '$-1\r\n', '*-1\r\n', '*0\r\n', '%0\r\n', '~0\r\n'),
    tie('list'),
  ),
  list: fc.oneof(
    fc.tuple(fc.constantFrom('*', '~'), fc.array(tie('reply'), { maxLength: 4 })).map(([type, items]) => {
      return `${type}${items.length}\r\n${items.join('')}`;
    }),
    fc.array(fc.tuple(blob, tie('reply')), { maxLength: 3 }).map((pairs) => {
      return `%${pairs.length}\r\n${pairs.map(([name, value]) => textOf('$', name) + value).join('')}`;
    }),
  ),
}));
const push = fc.array(blob, { minLength: 2, maxLength: 3 }).map((items) => {
  return `>${items.length}\r\n${items.map((item) => textOf('$', item)).join('')}`;
});

/** Cuts bytes into chunks of these sizes, over and over. */
function* chunksOf(bytes: Buffer, sizes: readonly number[]): Generator<Buffer> {
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? bytes.length;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

describe('decodeInOneLoop', () => {
  afterAll(() => void (Decoder.prototype.write = ofIoredis));

  it('passes on what the decoder of ioredis does, however the bytes arrive', () => {
    const replies = fc.array(fc.oneof({ arbitrary: reply, weight: 5 }, { arbitrary: push, weight: 1 }), {
      minLength: 1,
      maxLength: 6,
    });
    const sizes = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(replies, sizes, (texts, cuts) => {
        const bytes = Buffer.from(texts.join(''));
        const chunks = [...chunksOf(bytes, cuts)];
        expect(decoded(ours, chunks)).toEqual(decoded(ofIoredis, [bytes]));
      }),
      { numRuns: 500 },
    );
  });

  it('joins the chunks of a long text once', () => {
    const text = 'x'.repeat(1_000_000);
    const bytes = Buffer.from(`*2\r\n${textOf('$', text)}:7\r\n`);
    const [seen] = decoded(ours, [...chunksOf(bytes, [1_000])]);
    expect(seen).toBe(`reply ${JSON.stringify([Buffer.from(text), 7])}`);
  });

  it('fails on bytes that are not a reply', () => {
    expect(() => decoded(ours, [Buffer.from('?what\r\n')])).toThrow('unknown type 63');
  });
});
