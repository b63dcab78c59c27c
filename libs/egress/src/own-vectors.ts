/** One attempt to reach a place that is not allowed (or a control that is). */
export interface SsrfVector {
  id: string;
  cls: string;
  url: string;
  expect: 'block' | 'allow';
  /** Where it must be caught. */
  layer: 'url' | 'connect' | 'redirect';
  why: string;
  /** Answers to the first query, and to any later one. */
  resolve?: string[];
  resolve_second?: string[];
  location?: string;
}

type Row = readonly [url: string, why: string, more?: Partial<SsrfVector>];

const host = 'https://rows.partner.example/';
const rows: readonly Row[] = [
  ['https://@api.example.com/', 'empty user name'],
  ['https://:@api.example.com/', 'empty user name and password'],
  ['https://api.example.com:0/', 'port 0'],
  ['https://api.example.com:6379/', 'port of a broker'],
  ['https://api.example.com../', 'two trailing dots'],
  ['https://.api.example.com/', 'leading dot'],
  ['https://partner.example/', 'wildcard does not cover its own parent'],
  ['https://a.partner.example.localhost/', 'internal suffix behind an allowed name'],
  ['https://127.0.0.1.nip.io/', 'name that maps to loopback'],
  ['https://0x7f.1/', 'hex and short form'],
  ['https://127.0.0.1:80@api.example.com/', 'address in userinfo'],
  ['https://[::ffff:0:127.0.0.1]/', 'IPv4-translated literal (SIIT)'],
  ['https://[::]/', 'unspecified IPv6'],
  ['https://[fe80::1%25eth0]/', 'zone id'],
  ['https://api.example.com\t.evil.test/', 'tab that a parser strips'],
  ['https://api.example.com /', 'space in the authority'],
  [' https://api.example.com/', 'leading space'],
  ['\u0000https://api.example.com/', 'leading NUL'],
  ['https:\\\\api.example.com\\', 'backslashes for slashes'],
  ['HTTPS:///api.example.com/', 'three slashes, upper case'],
  ['//api.example.com/', 'relative to a scheme'],
  ['api.example.com/', 'no scheme'],
  ['', 'empty'],
  ['https://', 'nothing behind the scheme'],
  ['blob:https://api.example.com/x', 'blob'],
  ['javascript:alert(1)', 'javascript'],
  ['ftp://api.example.com/', 'ftp'],
  ['https://api。example。com.evil.test/', 'ideographic full stops'],
  ['https://ａpi.example.com.evil.test/', 'full-width letter, foreign suffix'],
  ['https://kubernetes/', 'single label'],
  ['https://kubernetes.default.svc/', 'cluster service'],
  ['https://printer.local/', 'multicast DNS name'],
  [host, 'loopback answer', { layer: 'connect', resolve: ['127.0.0.1'] }],
  [host, 'IPv6 loopback answer', { layer: 'connect', resolve: ['::1'] }],
  [host, 'IPv4-compatible loopback', { layer: 'connect', resolve: ['::7f00:1'] }],
  [host, 'carrier-grade NAT', { layer: 'connect', resolve: ['100.64.3.4'] }],
  [host, 'Alibaba metadata', { layer: 'connect', resolve: ['100.100.100.200'] }],
  [host, 'Oracle metadata', { layer: 'connect', resolve: ['192.0.0.192'] }],
  [host, 'AWS metadata v6', { layer: 'connect', resolve: ['fd00:ec2::254'] }],
  [host, 'site local', { layer: 'connect', resolve: ['fec0::1'] }],
  [host, '6to4 of loopback', { layer: 'connect', resolve: ['2002:7f00:1::'] }],
  [host, 'Teredo', { layer: 'connect', resolve: ['2001:0:7f00:1::'] }],
  [host, 'local NAT64 prefix', { layer: 'connect', resolve: ['64:ff9b:1::a00:1'] }],
  [host, 'outside global unicast', { layer: 'connect', resolve: ['4000::1'] }],
  [host, 'answer that is no address', { layer: 'connect', resolve: ['localhost'] }],
  [host, 'bad answer in last place', { layer: 'connect', resolve: ['93.184.216.34', '93.184.216.34', 'fe80::1'] }],
  ['https://api.example.com/redirect', 'to an unlisted host', { layer: 'redirect', location: 'https://evil.test/' }],
  ['https://api.example.com/redirect', 'backslashes', { layer: 'redirect', location: '\\\\127.0.0.1\\x' }],
  ['https://api.example.com/redirect', 'other port', { layer: 'redirect', location: 'https://api.example.com:22/' }],
  ['https://api.example.com/redirect', 'javascript', { layer: 'redirect', location: 'javascript:1' }],
  [
    'https://api.example.com/redirect',
    'mapped literal',
    { layer: 'redirect', location: 'https://[::ffff:127.0.0.1]/' },
  ],
  ['https://api.example.com/redirect', 'endless', { layer: 'redirect', location: '/loop' }],
  ['https://api.example.com./', 'one trailing dot', { expect: 'allow', layer: 'connect' }],
  ['https://x.y.partner.example/', 'wildcard spans labels', { expect: 'allow', layer: 'connect' }],
  ['https://api.example.com/redirect', 'within the origin', { expect: 'allow', layer: 'redirect', location: '/fine' }],
];

/** Rows of our own, beside the ones the design came with: other people's blind spots are not ours. */
export const OWN_VECTORS: readonly SsrfVector[] = rows.map(([url, why, more], index) => ({
  id: `own-${String(index + 1).padStart(3, '0')}`,
  cls: more?.layer ?? 'url',
  url,
  why,
  expect: 'block',
  layer: 'url',
  ...more,
}));
