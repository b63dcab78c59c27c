import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readFleetAddress, toFleetAddress } from './resource-address.js';

const OWN = 'mcp-0123456789abcdef';
const FOREIGN = 'mcp-fedcba9876543210';

test.each([
  ['test://static-text', `test://${OWN}/static-text`],
  ['file:///srv/a b.md', `file://${OWN}//srv/a b.md`],
  ['test://template/{id}/data{?q*}', `test://${OWN}/template/{id}/data{?q*}`],
  ['urn:isbn:0451450523', `urn://${OWN}.opaque/isbn:0451450523`],
  ['https://example.com?a=1#b', `https://${OWN}/example.com?a=1#b`],
  ['x:', `x://${OWN}.opaque/`],
  ['toolfleet://results/r_1?offset=0', `toolfleet://${OWN}/results/r_1?offset=0`],
  ['javascript:alert(1)', `x-javascript://${OWN}.opaque/alert(1)`],
  ['JavaScript://a/%0aalert(1)', `x-JavaScript://${OWN}/a/%0aalert(1)`],
  ['x-javascript:y', `x-x-javascript://${OWN}.opaque/y`],
  ['vbscript:x', `x-vbscript://${OWN}.opaque/x`],
  ['test://../../x', `test://${OWN}/../../x`],
  ['test://a\nb', `test://${OWN}/a\nb`],
])('%j has the address %j', (uri, address) => {
  expect(toFleetAddress(uri, OWN)).toBe(address);
  expect(readFleetAddress(address)).toEqual({ authority: OWN, uri });
});

test.each(['', 'no scheme', '//host/path', '/path', '{scheme}://x', '1x:y', ':x', ' test://x'])(
  '%j without a scheme stays',
  (text) => {
    expect(toFleetAddress(text, OWN)).toBe(text);
    expect(readFleetAddress(text)).toBeUndefined();
  },
);

test.each([
  'test://static-text',
  `test://${OWN}`,
  `test:${OWN}/x`,
  `test:///${OWN}/x`,
  `test://user@${OWN}/x`,
  `test://${OWN}:80/x`,
  `test://${OWN.toUpperCase()}/x`,
  `test://${OWN}0/x`,
  `test://x.${OWN}/x`,
  `test://${OWN}.other/x`,
])('%j names no server', (address) => {
  expect(readFleetAddress(address)).toBeUndefined();
});

test('an address without an authority stays, and one of another server is wrapped', () => {
  expect(toFleetAddress('test://x', undefined)).toBe('test://x');
  expect(toFleetAddress('javascript:alert(1)', undefined)).toBe('x-javascript:alert(1)');
  const address = toFleetAddress(`test://${FOREIGN}/x`, OWN);
  expect(readFleetAddress(address)).toEqual({ authority: OWN, uri: `test://${FOREIGN}/x` });
});

test('property: every text with a scheme is reversible, and names the server it comes from', () => {
  const scheme = fc.oneof(
    fc.stringMatching(/^[A-Za-z][A-Za-z0-9+.-]{0,8}$/),
    fc.constantFrom('javascript', 'x-javascript', 'x-x-VBScript', 'x-'),
  );
  const uri = fc.tuple(scheme, fc.constantFrom(':', '://'), fc.string());
  fc.assert(
    fc.property(uri, (parts) => {
      const text = parts.join('');
      expect(readFleetAddress(toFleetAddress(text, OWN))).toEqual({ authority: OWN, uri: text });
    }),
  );
});

test('URL parsers keep the authority, also of addresses with dots', () => {
  for (const uri of ['test://../../x', 'file:///../../etc/passwd', 'https://a/../../b', 'file:///C:/x']) {
    expect(readFleetAddress(new URL(toFleetAddress(uri, OWN)).href)?.authority).toBe(OWN);
  }
});
