/** Large results in a directory and in a bucket, on a real Redis, as two gateways see them. */
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CallBody, CallResult } from '@toolfleet/contracts';
import { EgressClient, egressFetch } from '@toolfleet/egress';
import { DEFAULT_RETENTION, RedisJournal } from '@toolfleet/journal';
import { SystemClock } from '@toolfleet/resilience';
import { FakeClock, S3_KEY, startRedis, startS3, type RedisServer } from '@toolfleet/testing';
import { outcome } from '@toolfleet/testing/conformance/journal';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { RedisCallStore } from './redis-call-store.js';
import { RedisKeptResults } from './redis-kept-results.js';
import { BucketObjectStore } from './bucket-object-store.js';
import { DirectoryObjectStore } from './directory-object-store.js';
import type { ObjectStore } from './object-store.js';
import { StoredResults } from './stored-results.js';

const clock = new SystemClock();
const MB = 1_000_000;
const QUOTA = 3 * MB;
const large: CallResult = outcome({
  output: { page: 'é'.repeat(MB / 2) },
  text: 'a page',
  content: [{ type: 'text', text: 'a page' }],
});
const body: CallBody = {
  success: true,
  output: large.output,
  text: large.text,
  content: large.content,
  error: null,
  metadata: { seen: 1 },
  execution_time_ms: 1,
  usage: { tokens: 0, cost_usd: 0 },
  call_id: 'c',
};

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
beforeEach(() => redis.flush());
afterAll(() => redis.stop());

/** A store under test, and its objects as the server of the store sees them. */
interface Place {
  connect(): ObjectStore;
  keys(): Promise<string[]>;
  damage(key: string): Promise<void>;
  remove(key: string): Promise<void>;
  /** Makes the store unreachable. */
  breakDown(): Promise<void>;
  stop(): Promise<void>;
}

async function directory(): Promise<Place> {
  const root = await mkdtemp(join(tmpdir(), 'toolfleet-results-'));
  return {
    connect: () => new DirectoryObjectStore(root),
    keys: async () => {
      const entries = await readdir(root, { recursive: true, withFileTypes: true });
      return entries.filter((entry) => entry.isFile()).map((e) => join(e.parentPath, e.name).slice(root.length + 1));
    },
    damage: async (key) => {
      const bytes = await readFile(join(root, key));
      bytes[bytes.length - 10] = 120;
      await writeFile(join(root, key), bytes);
    },
    remove: (key) => rm(join(root, key)),
    breakDown: async () => {
      await rename(root, `${root}.gone`);
      await writeFile(root, 'not a directory');
    },
    stop: async () => {
      await rm(root, { recursive: true, force: true });
      await rm(`${root}.gone`, { recursive: true, force: true });
    },
  };
}

async function bucket(): Promise<Place> {
  const server = await startS3();
  const { endpoint } = server;
  const clients: EgressClient[] = [];
  return {
    connect: () => {
      const egress = new EgressClient({ allowlist: [], allowedEndpoints: [endpoint], limits: { maxBytes: 64 * MB } });
      clients.push(egress);
      const key = { accessKeyId: S3_KEY.id, secretAccessKey: S3_KEY.secret };
      const place = { endpoint, bucket: 'bucket', region: 'us-east-1', prefix: 'results/' };
      return new BucketObjectStore({ ...place, ...key, fetch: egressFetch(egress) }, egress);
    },
    keys: async () => [...server.objects.keys()].map((key) => key.replace(/^results\//, '')),
    damage: async (key) => {
      const { bytes } = server.objects.get(`results/${key}`)!;
      bytes[bytes.length - 10] = 120;
    },
    remove: async (key) => void server.objects.delete(`results/${key}`),
    breakDown: () => server.stop(),
    stop: async () => {
      await Promise.all(clients.map((client) => client.close()));
      await server.stop();
    },
  };
}

describe.each([
  ['directory', directory],
  ['bucket', bucket],
])('results in a %s', (_name, open) => {
  let place: Place;
  let failures: string[];
  beforeEach(async () => {
    place = await open();
    failures = [];
  });
  afterEach(() => place.stop());

  /** The stores of one gateway, with its own connections. */
  const gateway = () => {
    const client = redis.client();
    const stored = new StoredResults({
      store: place.connect(),
      thresholdBytes: 256 * 1024,
      longestTtlMs: 86_400_000,
      clock,
      onFailure: (operation) => failures.push(operation),
    });
    const results = new RedisKeptResults(client, QUOTA, stored);
    return {
      stored,
      results,
      journal: new RedisJournal(client, clock, DEFAULT_RETENTION, results, stored),
      calls: new RedisCallStore(client, 3_600, () => clock.now(), results, stored),
    };
  };
  type Gateway = ReturnType<typeof gateway>;

  const accept = ({ calls }: Gateway, callId = 'c') =>
    calls.create({ callId, tenantId: 'acme', tool: 'x', state: 'accepted', acceptedAt: 1 });
  /** Runs a journalled call to its end. */
  async function run({ journal }: Gateway, callId: string, key?: string, result: CallResult = large) {
    const request = { callId, tenantId: 'acme', tool: 'x', deadlineAt: clock.now() + 60_000, repeatable: false };
    await journal.accept({ ...request, idempotencyKey: key, fingerprint: key && 'f' });
    await journal.claim(callId, 1);
    expect(await journal.finish(callId, 'current', result)).toBe(true);
  }

  async function bytesInRedis(): Promise<number> {
    const client = redis.client();
    const sizes = await Promise.all((await client.keys('*')).map((key) => client.memory('USAGE', key, 'SAMPLES', 0)));
    return sizes.reduce((sum: number, size) => sum + Number(size), 0);
  }
  const countedBytes = async () => Number(await redis.client().hget('{kept:acme}:sizes', '~total'));

  it('are deleted with their tenant, and those of others stay', async () => {
    const one = gateway();
    const text = JSON.stringify(large);
    const kept = await one.stored.put('globex', text, 3_600_000);
    for (const ttlMs of [60_000, 86_400_000]) await one.stored.put('acme', text, ttlMs);
    expect(await one.stored.eraseTenant('acme', true)).toBe(2);
    expect(await place.keys()).toHaveLength(3);
    expect(await one.stored.eraseTenant('acme', false)).toBe(2);
    expect(await place.keys()).toEqual([kept!.split(' ')[0]]);
    expect(await one.stored.eraseTenant('acme', false)).toBe(0);
  });

  it.each([
    { how: 'without the journal', journalled: false, key: undefined },
    { how: 'with an effect', journalled: true, key: undefined },
    { how: 'with an idempotency key', journalled: true, key: 'k' },
  ])('of an asynchronous call $how are stored once, counted, and read by another gateway', async (call) => {
    const [one, other] = [gateway(), gateway()];
    await accept(one);
    if (call.journalled) await run(one, 'c', call.key);
    await one.calls.finish('c', 'succeeded', body);
    expect(await place.keys()).toHaveLength(1);
    expect(await bytesInRedis()).toBeLessThan(10_000);
    expect(await countedBytes()).toBeGreaterThan(MB);
    expect(await countedBytes()).toBeLessThan(1.01 * MB);
    expect((await other.calls.get('c'))?.result).toEqual(body);
    expect((await other.calls.events('c')).at(-1)).toMatchObject({ type: 'done', result: { output: large.output } });
    if (call.key) {
      expect(await other.journal.find('acme', call.key, 'f')).toEqual({
        kind: 'finished',
        callId: 'c',
        outcome: large,
      });
    }
    expect(failures).toEqual([]);
  });

  it('start above the threshold: smaller ones stay in Redis', async () => {
    const one = gateway();
    await run(one, 'small', 'k', outcome({ output: 'x'.repeat(200_000) }));
    expect(await place.keys()).toEqual([]);
  });

  it('lose a race without leaving an object behind', async () => {
    const [one, other] = [gateway(), gateway()];
    await accept(one);
    const ends = await Promise.all([
      one.calls.finish('c', 'succeeded', body),
      other.calls.finish('c', 'succeeded', body),
    ]);
    expect(ends.filter(Boolean)).toHaveLength(1);
    expect(await place.keys()).toHaveLength(1);
    expect((await one.calls.get('c'))?.result).toEqual(body);
  });

  it('go with their object when the quota needs the room', async () => {
    const one = gateway();
    for (const callId of ['c1', 'c2', 'c3', 'c4']) {
      await accept(one, callId);
      await one.calls.finish(callId, 'succeeded', { ...body, call_id: callId });
    }
    expect(await place.keys()).toHaveLength(2);
    expect(await one.calls.get('c1')).toMatchObject({ state: 'succeeded' });
    expect((await one.calls.get('c4'))?.result?.output).toEqual(large.output);
  });

  it.each([['missing'], ['damaged']] as const)(
    'that are %s are reported, with the state of their call',
    async (reason) => {
      const one = gateway();
      await run(one, 'c', 'k');
      const [key = ''] = await place.keys();
      await (reason === 'missing' ? place.remove(key) : place.damage(key));
      const found = await one.journal.find('acme', 'k', 'f');
      expect(found).toMatchObject({
        kind: 'finished',
        outcome: {
          ok: true,
          output: null,
          text: expect.stringMatching(
            new RegExp(`The result of this call \\(\\d+ bytes\\) is ${reason} in the result store`),
          ),
          metadata: { result_omitted: { reason, bytes: expect.any(Number) } },
        },
      });
    },
  );

  it('are kept in Redis, within the quota, while the store is down; what it holds is unavailable', async () => {
    const one = gateway();
    await run(one, 'before', 'k1');
    await place.breakDown();
    await run(one, 'during', 'k2');
    expect(await one.journal.find('acme', 'k2', 'f')).toMatchObject({ outcome: { output: large.output } });
    await expect(one.journal.find('acme', 'k1', 'f')).rejects.toMatchObject({
      code: 'SERVICE_UNAVAILABLE',
      message: 'The result store is unavailable; retry later',
    });
    expect(failures).toContain('put');
    await run(one, 'third', 'k3');
    expect(await one.journal.find('acme', 'k3', 'f')).toMatchObject({
      outcome: { output: null, metadata: { result_omitted: { reason: 'quota' } } },
    });
  });

  it("belong to a tenant: a reference does not open another tenant's object, nor a path", async () => {
    const { stored } = gateway();
    const reference = (await stored.put('acme', JSON.stringify(large), 60_000)) ?? '';
    expect(reference).toMatch(/^\d{4}-\d\d-\d\dT\d\d\/acme\/[0-9a-f-]{36}\.json \d+ [0-9a-f]{64}$/);
    expect(await stored.get('acme', reference)).toEqual({ text: JSON.stringify(large) });
    expect(await stored.get('globex', reference)).toMatchObject({ omitted: { reason: 'missing' } });
    const [hour] = reference.split('/');
    const outside = reference.replace('/acme/', '/acme/../acme/');
    expect(await stored.get('acme', outside)).toMatchObject({ omitted: { reason: 'missing' } });
    const strange = (await stored.put('../globex', JSON.stringify(large), 60_000)) ?? '';
    expect(strange).toMatch(new RegExp(`^${hour}/~[0-9a-f]{32}/`));
  });

  it('are swept after they expire, not before', async () => {
    const fake = new FakeClock(clock.now());
    const stored = new StoredResults({
      store: place.connect(),
      thresholdBytes: 1_024,
      longestTtlMs: 86_400_000,
      clock: fake,
      onFailure: (operation) => failures.push(operation),
    });
    await stored.put('acme', JSON.stringify(large), 3_600_000);
    await stored.put('acme', JSON.stringify(large), 86_400_000);
    fake.advance(3_600_000);
    await stored.sweep();
    expect(await place.keys()).toHaveLength(2);
    fake.advance(3_900_000);
    await stored.sweep();
    expect(await place.keys()).toHaveLength(1);
    expect(failures).toEqual([]);
  });
});
