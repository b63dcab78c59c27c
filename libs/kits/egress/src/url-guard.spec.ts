import { isIP } from 'node:net';
import { isCodedError } from '@toolfleet/base';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AddressGuard } from './address-guard.js';
import { Allowlist, endpointOrigin, guardUrl, type UrlPolicy } from './url-guard.js';

const policy: UrlPolicy = {
  allowlist: new Allowlist(['api.example.com', '*.partner.example']),
  schemes: ['https', 'http'],
  allowedEndpoints: new Set(['http://127.0.0.1:9000']),
};

/** Fragments on which URL parsers disagree, joined in any order. */
const piece = fc.constantFrom(
  'https:',
  'http:',
  'HTTPS:',
  'file:',
  '//',
  '/',
  '\\',
  '@',
  ':',
  '?',
  '#',
  '.',
  '%00',
  '%2e',
  '%40',
  '\t',
  '\n',
  ' ',
  '[',
  ']',
  'api.example.com',
  'a.partner.example',
  'partner.example',
  'evil.test',
  '127.0.0.1',
  '2130706433',
  '0x7f.1',
  '017700000001',
  '::1',
  '::ffff:127.0.0.1',
  'localhost',
  'ⓛocalhost',
  '１２７.0.0.1',
  '。',
  'xn--',
  'user',
  '443',
  '80',
  '22',
  '9000',
  'path',
  '\u0000',
  '\u00ad',
);
const glued = fc.array(piece, { minLength: 1, maxLength: 9 }).map((pieces) => pieces.join(''));
const anything = fc.oneof(
  glued,
  glued.map((rest) => `https://${rest}`),
  fc.string({ unit: 'binary' }).map((rest) => `https://${rest}`),
  fc.webUrl(),
);

describe('guardUrl', () => {
  it('admits only allowed names on allowed ports, whatever the spelling', () => {
    fc.assert(
      fc.property(anything, (raw) => {
        let guarded;
        try {
          guarded = guardUrl(raw, policy);
        } catch (error) {
          return isCodedError(error) && error.code === 'EGRESS_REFUSED';
        }
        if (guarded.exempt) return guarded.origin === 'http://127.0.0.1:9000';
        const named = guarded.host === 'api.example.com' || guarded.host.endsWith('.partner.example');
        // Another parser reads the same target from the canonical form.
        const again = new URL(guarded.href);
        return (
          named &&
          isIP(guarded.host) === 0 &&
          [80, 443].includes(guarded.port) &&
          again.hostname === guarded.host &&
          again.username === '' &&
          !/[\s\\]/.test(guarded.target)
        );
      }),
      { numRuns: 5_000 },
    );
  });
});

describe('AddressGuard', () => {
  const guard = new AddressGuard(['198.51.100.0/24', '2001:4860::/32']);
  const byte = fc.integer({ min: 0, max: 255 });

  it.each([
    ['10', (a: number, b: number, c: number) => `10.${a}.${b}.${c}`],
    ['127', (a: number, b: number, c: number) => `127.${a}.${b}.${c}`],
    ['169.254', (_a: number, b: number, c: number) => `169.254.${b}.${c}`],
    ['192.168', (_a: number, b: number, c: number) => `192.168.${b}.${c}`],
    ['172.16-31', (a: number, b: number, c: number) => `172.${16 + (a % 16)}.${b}.${c}`],
    ['100.64-127', (a: number, b: number, c: number) => `100.${64 + (a % 64)}.${b}.${c}`],
    ['224-255', (a: number, b: number, c: number) => `${224 + (a % 32)}.${b}.${c}.1`],
    ['denied by configuration', (_a: number, _b: number, c: number) => `198.51.100.${c}`],
  ])('refuses all of %s, plain and mapped into IPv6', (_name, make) => {
    fc.assert(
      fc.property(byte, byte, byte, (a, b, c) => {
        const address = make(a, b, c);
        return (
          !guard.isPublic(address) && !guard.isPublic(`::ffff:${address}`) && !guard.isPublic(`64:ff9b::${address}`)
        );
      }),
    );
  });

  it('distinguishes public addresses', () => {
    for (const address of ['93.184.216.34', '8.8.8.8', '2606:2800:220:1:248:1893:25c8:1946', '::ffff:8.8.8.8']) {
      expect([address, guard.isPublic(address)]).toEqual([address, true]);
    }
    for (const address of ['2001:4860:4860::8888', 'fe80::1%eth0', 'localhost', '', '1.2.3', '168.63.129.16']) {
      expect([address, guard.isPublic(address)]).toEqual([address, false]);
    }
  });

  it('refuses malformed ranges', () => expect(() => new AddressGuard(['10.0.0.0'])).toThrow(/address range/));
});

describe('allowed endpoints', () => {
  it('are exact origins', () => {
    expect(endpointOrigin(' http://127.0.0.1:8080 ')).toBe('http://127.0.0.1:8080');
    expect(endpointOrigin('https://a.b:443/')).toBe('https://a.b');
    for (const wrong of ['127.0.0.1:80', 'http://a/b', 'http://a?x', 'http://u@a', 'ftp://a', '']) {
      expect(() => endpointOrigin(wrong)).toThrow(/origin/);
    }
  });
});

describe('Allowlist', () => {
  it.each(['', 'a b', 'http://', '*.*', 'a.*.b', 'host:port', 'host:123456', '*evil', 'ü.de'])(
    'refuses the entry %j or ignores it when empty',
    (entry) => {
      if (entry === '') return void expect(new Allowlist(['']).find('a.b')).toBeUndefined();
      return void expect(() => new Allowlist([entry])).toThrow(/allowlist entry/);
    },
  );

  it('matches whole names and dot-bounded wildcards', () => {
    const list = new Allowlist(['A.Example.', '*.b.c', 'http://plain.example:8080']);
    expect(['a.example', 'x.b.c', 'y.x.b.c', 'plain.example'].every((host) => list.find(host))).toBe(true);
    expect(['b.c', 'xb.c', 'a.example.evil', 'xa.example'].some((host) => list.find(host))).toBe(false);
    expect(list.find('plain.example')).toEqual({ plainHttp: true, ports: new Set([8080]) });
  });
});
