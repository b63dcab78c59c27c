/** Exports to files and buckets; Parquet is read by an independent reader. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { S3_KEY, startS3 } from '@toolfleet/testing';
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects, parquetSchema } from 'hyparquet';
import { beforeEach, describe, expect, it } from 'vitest';
import { folder, routes, run, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

const MANY = 10_001;
const call = (index: number) => ({
  cursor: String(index + 1),
  call_id: `c${index}`,
  ended_at: new Date(Date.UTC(2026, 0, 31, 12) + index).toISOString(),
  tenant_id: 'acme',
  user_id: 'änn 😀',
  roles: index === 0 ? ['member', 'approver'] : index === 1 ? [] : undefined,
  tool: 'calculator',
  entry_point: 'http',
  origin: 'public',
  status: 'success',
  outcomes: { transport: 'delivered', protocol: 'ok', tool: 'ok' },
  code: index === 0 ? 'TOOL_ERROR' : undefined,
  attempts: 1,
  duration_ms: 812.4,
  stages: { admit_ms: 1, wait_ms: 0, queue_ms: 0, execute_ms: 560, rest_ms: 1.4 },
  // Neither has an exact double.
  cost_usd: index === 0 ? 1_234_567.100001 : 0.000003,
  tokens: index === 0 ? 9_007_199_254_740_991 : 7,
});

/** The answers of a gateway with this many calls, some to a page. */
function serve(calls: number): void {
  routes.set('GET /api/v1/calls', ({ path }) => {
    const from = Number(new URLSearchParams(path.split('?')[1]).get('after'));
    const size = Math.min(2_000, calls - from);
    const next = from + size < calls ? String(from + size) : undefined;
    return {
      status: 200,
      body: { enabled: true, calls: Array.from({ length: size }, (_, n) => call(from + n)), next },
    };
  });
}

const leftovers = () => readdirSync(tmpdir()).filter((name) => name.startsWith('fleetctl-export-'));

describe('exports of calls', () => {
  beforeEach(() => serve(3));

  it('to Parquet have types, and row groups of a bounded size', async () => {
    serve(MANY);
    const path = join(folder, 'calls.parquet');
    expect(await run(['calls', 'export', '--format', 'parquet', '--output', path])).toMatchObject({ code: 0, out: '' });
    const file = await asyncBufferFromFile(path);
    const metadata = await parquetMetadataAsync(file);
    expect(metadata.row_groups.map((group) => Number(group.num_rows))).toEqual([10_000, 1]);
    const types = new Map(
      parquetSchema(metadata).children.map(({ element }) => [
        element.name,
        [element.type ?? '', element.converted_type ?? '', element.repetition_type].join(' ').trim(),
      ]),
    );
    expect(Object.fromEntries(types)).toMatchObject({
      ended_at: 'INT64 TIMESTAMP_MILLIS REQUIRED',
      call_id: 'BYTE_ARRAY UTF8 REQUIRED',
      code: 'BYTE_ARRAY UTF8 OPTIONAL',
      attempts: 'INT64  REQUIRED',
      duration_ms: 'DOUBLE  REQUIRED',
      cost_usd: 'INT64 DECIMAL REQUIRED',
      tokens: 'INT64  REQUIRED',
      body_bytes: 'INT64  OPTIONAL',
      roles: 'LIST OPTIONAL',
    });
    const rows = await parquetReadObjects({ file });
    expect(rows).toHaveLength(MANY);
    const { ended_at, roles, tokens, cost_usd, user_id, code, execute_ms, transport_outcome } = rows[0]!;
    expect({ ended_at, roles, tokens, cost_usd, user_id, code, execute_ms, transport_outcome }).toEqual({
      ended_at: new Date(Date.UTC(2026, 0, 31, 12)),
      roles: ['member', 'approver'],
      tokens: 9_007_199_254_740_991n,
      cost_usd: expect.closeTo(1_234_567.100001, 8),
      user_id: 'änn 😀',
      code: 'TOOL_ERROR',
      execute_ms: 560,
      transport_outcome: 'delivered',
    });
    expect(rows[1]!['roles']).toEqual([]);
    expect([rows[2]!['roles'] ?? null, rows[2]!['code'], rows[2]!['cost_usd']]).toEqual([null, null, 0.000003]);
    expect(rows.map((row) => row['call_id'])).toEqual(Array.from({ length: MANY }, (_, n) => `c${n}`));
  });

  it('of no calls are readable', async () => {
    serve(0);
    const path = join(folder, 'empty.parquet');
    await run(['calls', 'export', '--format', 'parquet', '--output', path]);
    expect(await parquetReadObjects({ file: await asyncBufferFromFile(path) })).toEqual([]);
  });

  it('go to standard output, which no terminal takes as Parquet', async () => {
    const { out } = await run(['calls', 'export', '--format', 'parquet']);
    expect(Buffer.from(out.slice(0, 8), 'base64').toString().slice(0, 4)).toBe('PAR1');
  });

  it('appear whole or not at all', async () => {
    const path = join(folder, 'calls.ndjson');
    expect((await run(['calls', 'export', '--output', path])).code).toBe(0);
    expect(readFileSync(path, 'utf8').trimEnd().split('\n')).toHaveLength(3);
    let pages = 0;
    routes.set('GET /api/v1/calls', () =>
      (pages += 1) > 1
        ? { status: 503, body: { error: 'away', code: 'SERVICE_UNAVAILABLE', hint: '', call_id: '' } }
        : { status: 200, body: { enabled: true, calls: [call(0)], next: '1' } },
    );
    for (const format of ['ndjson', 'csv', 'parquet']) {
      const other = join(folder, `other.${format}`);
      expect((await run(['calls', 'export', '--format', format, '--output', other])).code).not.toBe(0);
      expect([existsSync(other), existsSync(`${other}.part`)]).toEqual([false, false]);
      pages = 0;
    }
    const nowhere = await run(['calls', 'export', '--output', join(folder, 'none', 'x')]);
    expect(nowhere).toMatchObject({ code: 2, error: expect.stringContaining('cannot be written') });
  });

  it('are uploaded to a bucket with a signature', async () => {
    const { endpoint, objects, stop } = await startS3();
    const keys = { AWS_ACCESS_KEY_ID: S3_KEY.id, AWS_SECRET_ACCESS_KEY: S3_KEY.secret, AWS_ENDPOINT_URL_S3: endpoint };
    const upload = (target: string, env: Record<string, string>) =>
      run(['calls', 'export', '--format', 'csv', '--output', target], { env });
    try {
      expect(await upload("s3://bucket/2026/all (it's).csv", keys)).toMatchObject({ code: 0 });
      expect(objects.get("2026/all (it's).csv")?.bytes.toString()).toMatch(/^ended_at,.*\n(.*\n){3}$/);
      const wrong = await upload('s3://bucket/x.csv', { ...keys, AWS_SECRET_ACCESS_KEY: 'other' });
      expect(wrong).toMatchObject({ code: 1, error: expect.stringContaining('The storage answered 403') });
      expect(await upload('s3://bucket/x.csv', {})).toMatchObject({
        code: 2,
        error: expect.stringContaining('AWS_ACCESS_KEY_ID'),
      });
      expect((await upload('s3://bucket', keys)).error).toContain('s3://<bucket>/<key>');
    } finally {
      await stop();
    }
    expect((await upload('s3://bucket/x.csv', keys)).code).toBe(3);
    expect(leftovers()).toEqual([]);
  });
});
