import { KeyLimits, type KeyAllowance } from '@toolfleet/access';
import Fastify from 'fastify';
import { afterAll, expect, it } from 'vitest';
import { IdentityPages } from './identity-pages.js';

/** Two requests for each id. */
class TwoEach extends KeyLimits {
  readonly counts = new Map<string, number>();

  override take(id: string): KeyAllowance {
    const count = (this.counts.get(id) ?? 0) + 1;
    this.counts.set(id, count);
    const left = { remainingMinute: 0, remainingHour: 0, resetAtSeconds: 60 };
    return count <= 2 ? { allowed: true, ...left } : { allowed: false, ...left, window: 'minute', retryAfterMs: 5_000 };
  }
}

const limits = new TwoEach();
let limited = 0;
const answered = { status: 200, headers: [], body: 'a page' };
const pages = new IdentityPages(
  { ask: () => Promise.resolve(answered as never) },
  { publicUrl: 'https://fleet.example.com' },
  [],
  limits,
  () => (limited += 1),
);
const server = Fastify();
await server.register(async (scope) => pages.mount(scope));
afterAll(() => server.close());

const ask = (url: string, remoteAddress: string, method: 'GET' | 'POST' = 'GET') =>
  server.inject({ url, method, remoteAddress });

it('limits the requests of an address, of IPv6 those of its network', async () => {
  for (const address of ['192.0.2.1', '2001:db8:1:2::1']) {
    expect((await ask('/oauth/authorize', address)).body).toBe('a page');
    expect((await ask('/auth/sign-in', address)).statusCode).toBe(200);
  }
  for (const address of ['192.0.2.1', '::ffff:192.0.2.1', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::']) {
    const refused = await ask('/oauth/token', address, 'POST');
    expect([address, refused.statusCode, refused.headers['retry-after']]).toEqual([address, 429, '5']);
    expect(refused.json()).toMatchObject({ code: 'RATE_LIMITED', details: { window: 'minute', limit: 300 } });
  }
  expect(limited).toBe(4);
  for (const address of ['192.0.2.2', '2001:db8:1:3::1', '::1'])
    expect((await ask('/oauth/token', address, 'POST')).statusCode).toBe(200);
});

it('takes every logout of the provider', async () => {
  for (let i = 0; i < 4; i += 1)
    expect((await ask('/auth/backchannel-logout', '192.0.2.9', 'POST')).statusCode).toBe(200);
});
