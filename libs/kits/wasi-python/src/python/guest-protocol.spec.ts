import { beforeAll, describe, expect, it } from 'vitest';
import { bootGuest, type SpecGuest } from '../../spec/guest.js';
import { marshal, type MarshalValue } from './guest-protocol.js';

let guest: SpecGuest;
beforeAll(() => {
  guest = bootGuest();
});

/** The bytes as the guest's own `marshal` reads them, as JSON. */
const seenByPython = (value: MarshalValue) => {
  const hex = Buffer.from(marshal(value)).toString('hex');
  const { stdout } = guest.run(`import json, marshal\nprint(json.dumps(marshal.loads(bytes.fromhex("${hex}"))))`);
  return JSON.parse(stdout) as unknown;
};

describe('marshal', () => {
  it.each<[string, MarshalValue]>([
    ['nothing', null],
    ['truth', [true, false]],
    ['text of all planes', ['', 'a', 'ä€', '😀', 'x'.repeat(100_000)]],
    ['halves of surrogate pairs', ['\ud800', 'a\udfffb', '\udc00\ud800', '😀\ud83d']],
    ['a request', { code: 'print(1)', args: '[1]', files: { 'a.txt': true, b: false }, extra_modules: ['os', 're'] }],
    ['nothing in lists', [[], {}, [[]]]],
  ])('is read by Python: %s', (_, value) => {
    expect(seenByPython(value)).toEqual(value);
  });
});
