import { EgressClient } from '@toolfleet/egress';
import { SystemClock } from '@toolfleet/resilience';
import { expect, it } from 'vitest';
import type { UpstreamSession } from './mcp-session.js';
import { readTarget } from './mcp-target.js';
import { POOL_LIMITS, SessionPool } from './session-pool.js';

const target = readTarget('s', 'streamable-http', 'https://mcp.example.com/mcp', {});
const fakeSession = () => ({ client: {}, prior: {}, close: async () => undefined }) as unknown as UpstreamSession;

function poolOf(open: () => Promise<UpstreamSession>): SessionPool {
  const parts = {
    egress: new EgressClient({ allowlist: [] }),
    clock: new SystemClock(),
    expand: (value: string) => value,
    maxResponseBytes: 1_000,
    allowStdio: false,
    version: '0',
  };
  return new SessionPool(parts, undefined, POOL_LIMITS, open as never);
}

it('opens one new session for all callers after the first failed to open', async () => {
  let opened = 0;
  const pool = poolOf(async () => {
    opened += 1;
    await new Promise((resolve) => setImmediate(resolve));
    if (opened === 1) throw new Error('another revision is spoken here');
    return fakeSession();
  });
  // As calls do: a session refused by the server is retired, and the call is sent once more.
  const call = async (): Promise<string> => {
    try {
      return await pool.use(target, 'acme', async () => 'done');
    } catch {
      pool.retire(target, undefined, true);
      return pool.use(target, 'acme', async () => 'done');
    }
  };
  expect(await Promise.all(Array.from({ length: 20 }, call))).toEqual(Array(20).fill('done'));
  expect(opened).toBe(2);
  expect(pool.size).toBe(1);
  await pool.close();
});

it('keeps a retired session open for its users and gives new callers another', async () => {
  const closed: UpstreamSession[] = [];
  const pool = poolOf(async () => {
    const session = fakeSession();
    return Object.assign(session, { close: async () => void closed.push(session) });
  });
  let finish = (): void => undefined;
  const used: UpstreamSession[] = [];
  const first = pool.use(target, 'acme', async (session) => {
    used.push(session);
    await new Promise<void>((resolve) => (finish = resolve));
    return closed.length;
  });
  while (used.length === 0) await new Promise((resolve) => setImmediate(resolve));
  pool.retire(target, used[0], false);
  await pool.use(target, 'acme', async (session) => void used.push(session));
  expect(used[1]).not.toBe(used[0]);
  finish();
  expect(await first).toBe(0);
  while (closed.length === 0) await new Promise((resolve) => setImmediate(resolve));
  expect(closed).toEqual([used[0]]);
  await pool.close();
});

it('leaves exchanges with a shared server to other tenants while one holds all that it gets', async () => {
  const pool = poolOf(async () => fakeSession());
  const { promise, resolve } = Promise.withResolvers<void>();
  const hold = (tenantId: string) =>
    pool
      .use(target, tenantId, () => promise)
      .then(
        () => 'done',
        (error: { code: string }) => error.code,
      );
  const greedy = Array.from({ length: POOL_LIMITS.maxInFlight }, () => hold('greedy'));
  expect(await pool.use(target, 'modest', async () => 'done')).toBe('done');
  resolve();
  const ends = await Promise.all(greedy);
  expect(ends.filter((end) => end === 'QUEUE_FULL')).toHaveLength(25);
  await pool.close();
});
