import { expect, it } from 'vitest';
import { readRequestCredential, readSessionCookie } from './session-cookie.js';

const SECRET = 'a'.repeat(43);
const COOKIE = `theme=dark; __Host-toolfleet-session=${SECRET}`;

it.each([
  ['from the same origin', ['Sec-Fetch-Site', 'same-origin']],
  ['without Fetch Metadata, of its own origin', ['Origin', 'https://tools.example.com']],
  ['without either', []],
])('a session cookie counts on a request %s', (_what, more) => {
  const headers = ['Host', 'tools.example.com', 'Cookie', COOKIE, 'X-Toolfleet-Session', '1', ...more];
  expect(readRequestCredential(headers)).toEqual({ kind: 'session', token: SECRET });
});

it.each([
  ['another site', ['X-Toolfleet-Session', '1', 'Sec-Fetch-Site', 'cross-site']],
  ['another host of the site', ['X-Toolfleet-Session', '1', 'Sec-Fetch-Site', 'same-site']],
  ['an address that was typed', ['X-Toolfleet-Session', '1', 'Sec-Fetch-Site', 'none']],
  ['another origin', ['X-Toolfleet-Session', '1', 'Origin', 'https://evil.example']],
  ['another port', ['X-Toolfleet-Session', '1', 'Origin', 'https://tools.example.com:8443']],
  ['an opaque origin', ['X-Toolfleet-Session', '1', 'Origin', 'null']],
  ['a form', ['Sec-Fetch-Site', 'same-origin']],
])('a session cookie does not count on a request of %s', (_what, more) => {
  const headers = ['Host', 'tools.example.com', 'Cookie', COOKIE, ...more];
  expect(() => readRequestCredential(headers)).toThrow('session cookie counts only');
});

it('a key in a header counts, whatever the cookie', () => {
  const headers = ['Cookie', COOKIE, 'Authorization', 'Bearer tf_test_abc'];
  expect(readRequestCredential(headers)).toEqual({ kind: 'bearer', token: 'tf_test_abc' });
});

it.each([
  ['of another name', 'toolfleet-session'],
  ['with a prefix of the name', 'x__Host-toolfleet-session'],
])('a cookie %s is none', (_what, name) => {
  expect(readSessionCookie(['Cookie', `${name}=${SECRET}`])).toBeUndefined();
  expect(readSessionCookie(['Cookie', '__Host-toolfleet-session=short'])).toBeUndefined();
});
