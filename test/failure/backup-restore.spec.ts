/**
 * The restore drill of docs/operations/backup.md, with its own commands: everything is copied while the fleet works, then lost, and put
 * back. Keys, sources, results, idempotent calls, budgets, bills and files are as they were.
 */
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '@toolfleet/testing';
import { connect, headers as natsHeaders } from 'nats';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { documentedLines, runDocumented } from '../fleet/documented-commands.js';
import { TestFleet } from '../fleet/test-fleet.js';

const RUNNING = ['budget', 'registry', 'builtin-executor', 'gateway'] as const;
const TOOLS = ['calculator', 'file_read', 'orders_listOrders'];
/** The owner of the files tools' workspace. */
const SESSION = 'drill';
const PATIENCE = { timeoutMs: 30_000, everyMs: 100 };
const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'Orders', version: '1' },
  servers: [{ url: 'https://orders.example.com' }],
  paths: { '/orders': { get: { operationId: 'listOrders', responses: { 200: { description: 'All' } } } } },
};

let fleet: TestFleet;
let backup: string;
let acmeKey = '';
beforeAll(async () => {
  backup = await mkdtemp(join(tmpdir(), 'toolfleet-backup-'));
  fleet = await TestFleet.start({
    services: Object.fromEntries(RUNNING.map((name) => [name, 1])),
    tools: ['calculator', 'file_read'],
    env: {
      BUILTIN_TOOLSETS: 'compute,files',
      BUILTIN_COSTS_MICRO_USD: 'calculator=1000',
      EGRESS_ALLOWED_ENDPOINTS: 'https://orders.example.com',
    },
  });
});
afterAll(async () => {
  await fleet?.stop();
  await rm(backup, { recursive: true, force: true });
});

const keyed = () =>
  fleet.call('calculator', { expression: '20 + 1' }, { headers: { 'idempotency-key': 'drill' }, key: acmeKey });

/** Writes a file as the fleet's own services do; public callers have no such tool. */
async function writeFile(path: string, content: string): Promise<void> {
  const nats = await connect({ servers: `127.0.0.1:${fleet.nats.port}` });
  const headers = natsHeaders();
  headers.set('Authorization', `Bearer ${fleet.adminKey}`);
  const body = JSON.stringify({ name: 'file_write', arguments: { path, content }, session_id: SESSION });
  const answer = (await nats.request('tool.call', body, { timeout: 30_000, headers })).json() as { success: boolean };
  expect(answer.success, JSON.stringify(answer)).toBe(true);
  await nats.close();
}

/** What a user or an administrator can see of the fleet's state. */
async function seen(callId: string) {
  const bodyOf = async (path: string) => (await fleet.ask({ path })).body;
  const replay = await keyed();
  const keys: { id: string; last_used_at: string | null }[] = await bodyOf('/api/v1/keys');
  const usage = await bodyOf('/api/v1/usage?group_by=tool');
  return {
    billed: usage.rows.find((row: { tool_name: string }) => row.tool_name === 'calculator'),
    budgets: await bodyOf('/api/v1/budgets'),
    keys: keys.map((key) => ({ ...key, last_used_at: null })).toSorted((a, b) => a.id.localeCompare(b.id)),
    result: await bodyOf(`/api/v1/calls/${callId}`),
    file: (await fleet.call('file_read', { path: 'notes/plan.txt' }, { fields: { session_id: SESSION } })).body.output,
    replayed: [replay.body.call_id, replay.body.metadata.idempotent_replay, replay.body.output],
  };
}

/** Every process, and every byte they kept. */
async function loseEverything({ DATA, LEDGER, WORKSPACES }: Record<'DATA' | 'LEDGER' | 'WORKSPACES', string>) {
  for (const name of RUNNING) await fleet.kill(name);
  await fleet.redis.kill();
  const ledger = (await readdir(LEDGER)).filter((file) => file.startsWith('budget.db'));
  const lost = [...(await readdir(DATA)).map((file) => join(DATA, file)), ...ledger.map((file) => join(LEDGER, file))];
  for (const path of [...lost, WORKSPACES]) await rm(path, { recursive: true });
  await mkdir(WORKSPACES);
}

it('everything lost comes back from the backup', async () => {
  const issued = await fleet.ask({
    path: '/api/v1/keys',
    body: { tenant_id: 'acme', client: 'drill', roles: [], tier: 'wide' },
  });
  acmeKey = issued.body.token;
  const source = { name: 'orders', spec_inline: JSON.stringify(DOCUMENT), auth_type: 'none', name_prefix: 'orders_' };
  const registered = await fleet.ask({ path: '/api/v1/sources/openapi', body: source });
  expect(registered.status, registered.text).toBeLessThan(300);
  await fleet.untilListed(TOOLS);
  await writeFile('notes/plan.txt', 'as it was');
  await keyed();
  const accepted = await fleet.call('calculator', { expression: '6 * 7' }, { fields: { mode: 'async' } });
  const callId: string = accepted.body.call_id;
  await eventually(
    'all is done and billed',
    async () => {
      const { result, billed } = await seen(callId);
      return result.status === 'succeeded' && billed?.calls === 2;
    },
    PATIENCE,
  );
  const before = await seen(callId);
  expect(before.file).toMatchObject({ content: 'as it was' });

  const folders = {
    BACKUP: backup,
    DATA: fleet.redis.folder,
    LEDGER: fleet.folder,
    WORKSPACES: join(fleet.folder, 'workspaces'),
  };
  const redis = fleet.redis.client();
  await redis.bgsave();
  await eventually('the snapshot is written', async () => (await readdir(folders.DATA)).includes('dump.rdb'), PATIENCE);
  await runDocumented(documentedLines('backup'), folders);
  await writeFile('notes/plan.txt', 'changed after the backup');

  await loseEverything(folders);
  await runDocumented(documentedLines('restore'), folders);
  await fleet.redis.restart();
  for (const name of RUNNING) await fleet.launch(name);
  await fleet.untilListed(TOOLS);
  expect(await seen(callId)).toEqual(before);
});
