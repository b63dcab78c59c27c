/** Two replicas of the file tools on one S3-compatible bucket, over real HTTP: files of one are there for the other, one quota. */
import { S3_KEY, startS3 } from '@toolfleet/testing';
import { connect, headers as natsHeaders, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestFleet } from '../../fleet/test-fleet.js';

const QUOTA = 1024 * 1024;
const FILE = 'x'.repeat(150_000);

let bucket: Awaited<ReturnType<typeof startS3>>;
let fleet: TestFleet;
let nats: NatsConnection;
beforeAll(async () => {
  bucket = await startS3();
  fleet = await TestFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 2 },
    tools: ['file_read'],
    env: {
      BUILTIN_TOOLSETS: 'files',
      BUILTIN_RATE_LIMITS: 'file_write=0,file_list=0,file_read=0',
      WORKSPACE_STORE: 's3',
      S3_ENDPOINT: bucket.endpoint,
      S3_BUCKET: 'bucket',
      S3_ACCESS_KEY_ID: S3_KEY.id,
      S3_SECRET_ACCESS_KEY: S3_KEY.secret,
      SHANNON_MAX_WORKSPACE_SIZE_MB: '1',
    },
  });
  nats = await connect({ servers: `127.0.0.1:${fleet.nats.port}` });
});
afterAll(async () => {
  await nats?.close();
  await fleet?.stop();
  await bucket?.stop();
});

/** An internal call of an administrator for project `shop`. */
async function call(name: string, args: object): Promise<any> {
  const headers = natsHeaders();
  headers.set('Authorization', `Bearer ${fleet.adminKey}`);
  const message = JSON.stringify({ name, arguments: args, project_id: 'shop', create_project: true });
  return (await nats.request('tool.call', message, { timeout: 70_000, headers })).json();
}

describe('replicas on one bucket', () => {
  it('see each other’s files and keep one quota', async () => {
    const written = await Promise.all(
      Array.from({ length: 24 }, (_, n) => call('file_write', { path: `data/${n}.txt`, content: FILE })),
    );
    const refused = written.filter((answer) => !answer.success);
    for (const answer of refused) expect(answer.error).toMatch(/workspace is full/);
    const sizes = [...bucket.objects.values()].map(({ bytes }) => bytes.length);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(QUOTA);
    expect(written.length - refused.length).toBe(sizes.filter((size) => size > 0).length);
    expect(refused.length).toBeGreaterThan(0);
    expect([...bucket.objects.keys()].filter((key) => key.includes('~holds-'))).toEqual([]);

    // The writes went to both; what is left of them serves all files.
    await fleet.kill('builtin-executor');
    const { output } = await call('file_list', { path: 'data' });
    expect(output.count).toBe(sizes.length);
    const read = await Promise.all(output.entries.map(({ path }: { path: string }) => call('file_read', { path })));
    for (const answer of read) expect(answer.output.size).toBe(FILE.length);
  });
});
