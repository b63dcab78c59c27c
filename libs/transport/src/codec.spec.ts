import fc from 'fast-check';
import { headers as natsHeaders } from 'nats';
import { describe, expect, it } from 'vitest';
import { decodeText, HeaderBlock, headerText } from './codec.js';

const name = fc.stringMatching(/^[A-Za-z][A-Za-z0-9-]{0,20}$/);
const value = fc.string({ maxLength: 40 }).map((text) => text.replace(/[\r\n]/g, ' '));

describe('headers', () => {
  it('are found case-insensitively', () => {
    fc.assert(
      fc.property(fc.dictionary(name, value, { maxKeys: 6, noNullPrototype: true }), (sent) => {
        const names = Object.keys(sent);
        fc.pre(new Set(names.map((one) => one.toLowerCase())).size === names.length);
        const received = new HeaderBlock(headerText(sent));
        for (const one of names) {
          const expected = sent[one]?.trim() || undefined;
          expect(received.get(one)).toBe(expected);
          expect(received.get(one.toUpperCase())).toBe(expected);
        }
        expect(received.get('Not-There-At-All-At-All')).toBeUndefined();
      }),
    );
  });

  it('decode what the nats package encodes', () => {
    const stock = natsHeaders();
    stock.set('Tf-Call-Id', 'c1');
    stock.append('Accept', 'a');
    stock.append('Accept', 'b');
    stock.set('authorization', 'Bearer x:y');
    const block = new HeaderBlock(decodeText((stock as unknown as { encode(): Uint8Array }).encode()));
    expect(['tf-call-id', 'Accept', 'Authorization', 'Call-Id', ''].map((one) => block.get(one))).toEqual([
      'c1',
      'a',
      'Bearer x:y',
      undefined,
      undefined,
    ]);
  });

  it('ignore a name inside a value', () => {
    const block = new HeaderBlock(headerText({ A: 'B: c', 'X-B': 'd' }));
    expect(block.get('B')).toBeUndefined();
  });

  it('refuse values with line breaks', () => {
    for (const text of ['a\r\nB: c', 'a\n', '\r']) expect(() => headerText({ A: text })).toThrow(/line break/);
  });
});
