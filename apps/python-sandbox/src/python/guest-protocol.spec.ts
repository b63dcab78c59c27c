import { beforeAll, describe, expect, it } from 'vitest';
import { bootGuest, type SpecGuest } from '../../spec/guest.js';
import { marshalled, type Marshalled } from './guest-protocol.js';

let guest: SpecGuest;
beforeAll(() => {
  guest = bootGuest();
});

/** What the guest's own `marshal` makes of the bytes, as JSON. */
const seenByPython = (value: Marshalled) => {
  const hex = Buffer.from(marshalled(value)).toString('hex');
  const { stdout } = guest.run(`import json, marshal\nprint(json.dumps(marshal.loads(bytes.fromhex("${hex}"))))`);
  return JSON.parse(stdout) as unknown;
};

describe('marshalled', () => {
  it.each<[string, Marshalled]>([
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
