/**
 * The jobs of deploy/k8s/backup on processes: their commands, with their scripts, copy a ledger, a Redis with the users of deploy/ and
 * workspaces, all of which are then lost and restored.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { POSTGRES_PROGRAMS, startPostgres, startRedis } from '@toolfleet/testing';
import yaml from 'js-yaml';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresDialect } from '../../apps/budget/src/ledger-database.js';
import { UsageLedger } from '../../apps/budget/src/usage-ledger.js';
import { deployedUsers, passwordFor } from '../fleet/deployed-brokers.js';

const FOLDER = fileURLToPath(new URL('../../deploy/k8s/backup', import.meta.url));
const run = promisify(execFile);
const DAY = 86_400_000;

interface CronJob {
  kind: string;
  metadata: { name: string };
  spec: {
    suspend?: boolean;
    jobTemplate: { spec: { template: { spec: { containers: [{ command: string[]; env: { name: string }[] }] } } } };
  };
}
const jobs = (yaml.loadAll(await readFile(`${FOLDER}/jobs.yaml`, 'utf8')) as CronJob[]).filter(
  ({ kind }) => kind === 'CronJob',
);

let backups: string;
beforeAll(async () => {
  backups = await mkdtemp(join(tmpdir(), 'toolfleet-backups-'));
  await writeFile(join(backups, 'password'), passwordFor('backup'));
});
afterAll(() => rm(backups, { recursive: true }));

/** Runs the command of a job with values for the variables that it declares. */
async function job(name: string, values: Record<string, string>): Promise<void> {
  const found = jobs.find(({ metadata }) => metadata.name === name)!;
  const { command, env } = found.spec.jobTemplate.spec.template.spec.containers[0];
  const all: Record<string, string> = {
    BACKUPS: backups,
    KEEP: '2',
    PASSWORD_FILE: join(backups, 'password'),
    ...values,
  };
  const declared = env.map((variable) => variable.name).filter((variable) => variable in all);
  const [shell, script, ...args] = command;
  await run(shell!, [script!.replace('/scripts', `${FOLDER}/files`), ...args], {
    env: {
      PATH: `${POSTGRES_PROGRAMS ?? ''}:${process.env['PATH']}`,
      PGOPTIONS: '-c client_min_messages=error',
      ...Object.fromEntries(declared.map((variable) => [variable, all[variable]!])),
    },
  });
}

describe('the jobs of deploy/k8s/backup', () => {
  it('back up and restore are there for each store, and only backups run by themselves', () => {
    const stores = ['ledger', 'redis', 'workspaces'];
    expect(jobs.map(({ metadata }) => metadata.name)).toEqual([
      ...stores.map((store) => `backup-${store}`),
      ...stores.map((store) => `restore-${store}`),
    ]);
    expect(jobs.map(({ spec }) => spec.suspend ?? false)).toEqual([false, false, false, true, true, true]);
  });

  it.skipIf(!POSTGRES_PROGRAMS)('restore a ledger with its days, over one that is damaged or gone', async () => {
    const postgres = await startPostgres();
    const url = await postgres.createDatabase('ledger');
    const values = { DATABASE_URL: url };
    const opened = async () => {
      const ledger = new UsageLedger(postgresDialect(url));
      await ledger.open();
      return ledger;
    };
    const first = await opened();
    const now = Date.now();
    const row = (callId: string, at: number) => ({
      ...{ call_id: callId, tenant_id: 'acme', user_id: 'ann', tool_name: 'calculator', tokens: 100, real_tokens: 0 },
      ...{ micro_usd: 10, success: true, provenance: 'live', kind: 'settled' as const, at, charged_at: at },
    });
    await first.append([row('a', now), row('b', now - DAY), row('c', now - 9 * DAY)]);
    await first.rollUpBefore(now - 5 * DAY);
    const before = await first.sums({ groupBy: ['day', 'tool'] });
    await job('backup-ledger', values);
    await first.append([row('later', now)]);
    await first.close();
    await job('restore-ledger', values);
    const second = await opened();
    expect(await second.sums({ groupBy: ['day', 'tool'] })).toEqual(before);
    await second.append([row('a', now), row('d', now)]); // known rows stay single
    expect((await second.sums({ groupBy: [] }))[0]?.calls).toBe(4);
    await second.close();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query('DROP SCHEMA public CASCADE');
    await client.query('CREATE SCHEMA public');
    await client.end();
    await job('restore-ledger', values);
    const third = await opened();
    expect(await third.sums({ groupBy: ['day', 'tool'] })).toEqual(before);
    await third.close();
    await postgres.stop();
  });

  it('restore Redis by a user that may do nothing but copy', async () => {
    const server = await startRedis({ appendOnly: true, users: await deployedUsers('redis-failover.acl.template') });
    const client = server.client();
    await client.hset('{auth}:keys', 'k1', 'one');
    await job('backup-redis', { REDIS_URL: `redis://127.0.0.1:${server.port}` });
    await client.hset('{auth}:keys', 'k2', 'after the backup');
    await server.kill();
    await job('restore-redis', { DATA: server.folder });
    await server.restart();
    expect(await server.client().hgetall('{auth}:keys')).toEqual({ k1: 'one' });
    await server.stop();
  });

  it('restore workspaces, and keep the newest backups', async () => {
    const workspaces = await mkdtemp(join(tmpdir(), 'toolfleet-workspaces-'));
    await mkdir(join(workspaces, 'acme'));
    const file = join(workspaces, 'acme', 'a.txt');
    for (const content of ['one', 'two', 'three']) {
      await writeFile(file, content);
      await job('backup-workspaces', { WORKSPACES: workspaces });
      await new Promise((resolve) => setTimeout(resolve, 1_100)); // names have seconds
    }
    expect((await readdir(backups)).filter((name) => name.startsWith('workspaces-'))).toHaveLength(2);
    await rm(join(workspaces, 'acme'), { recursive: true });
    await job('restore-workspaces', { WORKSPACES: workspaces });
    expect(await readFile(file, 'utf8')).toBe('three');
    await rm(workspaces, { recursive: true });
  });
});
