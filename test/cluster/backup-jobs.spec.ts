/**
 * The jobs of deploy/k8s/backup on processes: their commands, with their scripts, copy a ledger, a Redis with the users of deploy/ and
 * workspaces, all of which are then lost and restored. A damaged backup changes nothing.
 */
import { execFile, spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { passwordFor, POSTGRES_PROGRAMS, redisUsers, startPostgres, startRedis } from '@toolfleet/testing';
import {
  HAS_OPENSSL,
  makeCertificates,
  startTlsRedis,
  startTlsSentinel,
  type Certificates,
} from '@toolfleet/testing/tls-servers';
import yaml from 'js-yaml';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresDialect } from '../../libs/database/src/dialects.js';
import { UsageLedger } from '../../apps/budget/src/usage-ledger.js';

const FOLDER = fileURLToPath(new URL('../../deploy/k8s/backup', import.meta.url));
const run = promisify(execFile);
const DAY = 86_400_000;
/** False without the programs that the jobs of Redis run; `npm run test:cluster` gets them where it can. */
const HAS_REDIS_TOOLS = ['redis-cli', 'redis-check-rdb'].every(
  (program) => spawnSync(program, ['--version']).status === 0,
);

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

/** Variables that components of deploy/k8s add to the jobs. */
const ADDED = (
  await Promise.all(
    ['stores-ca', 'redis-sentinel'].map((component) =>
      readFile(`${FOLDER}/../components/${component}/kustomization.yaml`, 'utf8'),
    ),
  )
).flatMap((text) => [...text.matchAll(/jobTemplate\/.*\/env\/-, value: \{ name: (\w+)/g)].map(([, name]) => name!));

let backups: string;
beforeAll(async () => {
  backups = await mkdtemp(join(tmpdir(), 'toolfleet-backups-'));
  await writeFile(join(backups, 'password'), passwordFor('backup'));
});
afterAll(() => rm(backups, { recursive: true }));

const newestOf = async (store: string): Promise<string> =>
  join(
    backups,
    (await readdir(backups))
      .filter((name) => name.startsWith(`${store}-2`))
      .toSorted()
      .at(-1)!,
  );

/** What a job that fails says. */
async function faultOf(name: string, values: Record<string, string>): Promise<string> {
  const { stderr } = await job(name, values).then(
    () => ({ stderr: 'it succeeded' }),
    (error: { stderr: string }) => error,
  );
  return stderr;
}

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
  const declared = [...env.map((variable) => variable.name), ...ADDED].filter((variable) => variable in all);
  const [shell, script, ...args] = command;
  await run(shell!, [script!.replace('/scripts', `${FOLDER}/files`), ...args], {
    env: {
      PATH: `${POSTGRES_PROGRAMS ?? ''}:${process.env['PATH']}`,
      PGOPTIONS: '-c client_min_messages=error',
      ...Object.fromEntries(declared.map((variable) => [variable, all[variable]!])),
    },
  });
}

const row = (callId: string, at: number) => ({
  ...{ call_id: callId, tenant_id: 'acme', user_id: 'ann', tool_name: 'calculator', tokens: 100, real_tokens: 0 },
  ...{ micro_usd: 10, success: true, provenance: 'live', kind: 'settled' as const, at, charged_at: at },
});

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
    await first.append([row('a', now), row('b', now - DAY), row('c', now - 9 * DAY)]);
    await first.rollUpBefore(now - 5 * DAY);
    const before = await first.sums({ group_by: ['day', 'tool'] });
    await job('backup-ledger', values);
    await first.append([row('later', now)]);
    await first.close();
    await job('restore-ledger', values);
    const second = await opened();
    expect(await second.sums({ group_by: ['day', 'tool'] })).toEqual(before);
    await second.append([row('a', now), row('d', now)]); // known rows stay single
    expect((await second.sums({ group_by: [] }))[0]?.calls).toBe(4);
    await second.close();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query('DROP SCHEMA public CASCADE');
    await client.query('CREATE SCHEMA public');
    await client.end();
    await job('restore-ledger', values);
    const third = await opened();
    expect(await third.sums({ group_by: ['day', 'tool'] })).toEqual(before);
    await third.close();
    await postgres.stop();
  });

  it.skipIf(!POSTGRES_PROGRAMS)('leave a ledger as it is when the backup is damaged, or services run', async () => {
    const postgres = await startPostgres();
    const url = await postgres.createDatabase('ledger');
    const ledger = new UsageLedger(postgresDialect(url, { application: 'budget' }));
    await ledger.open();
    const records = new pg.Client({ connectionString: url, application_name: 'toolfleet-records' });
    await records.connect();
    const now = Date.now();
    await ledger.append(Array.from({ length: 20_000 }, (_, index) => row(`c${index}`, now)));
    await job('backup-ledger', { DATABASE_URL: url });
    await ledger.append([row('later', now)]);
    const restore = () =>
      job('restore-ledger', { DATABASE_URL: url }).catch(({ stderr }: { stderr: string }) => stderr);
    expect(await restore()).toContain('still connected to this database: budget, records; stop them first');
    const sums = await ledger.sums({ group_by: ['day', 'tool'] });
    await ledger.close();
    expect(await restore()).toContain('still connected to this database: records; stop them first');
    await records.end();
    const newest = await newestOf('ledger');
    const whole = await readFile(newest);
    for (const bytes of [
      whole.subarray(0, whole.length - 2_000),
      whole.subarray(0, whole.length / 2),
      whole.subarray(0, 100),
    ]) {
      await writeFile(newest, bytes);
      expect(await restore()).toContain('is not a whole backup of ledger');
    }
    // Readable as a whole, but not the tables that the ledger has: nothing is committed.
    await writeFile(newest, whole);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(
      "create function public.to_fail() returns event_trigger language plpgsql as $$ begin raise exception 'full'; end $$",
    );
    await client.query(
      "create event trigger fail on ddl_command_end when tag in ('CREATE INDEX') execute function public.to_fail()",
    );
    expect(await restore()).toContain('full');
    await client.query('drop event trigger fail');
    await client.end();
    const after = new UsageLedger(postgresDialect(url));
    await after.open();
    expect(await after.sums({ group_by: ['day', 'tool'] })).toEqual(sums);
    await after.close();
    await postgres.stop();
  });

  it.skipIf(!HAS_REDIS_TOOLS)('restore Redis by a user that may do nothing but copy', async () => {
    const server = await startRedis({ appendOnly: true });
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

  it.skipIf(!HAS_REDIS_TOOLS)('leave Redis as it is when the backup is damaged, else keep its files', async () => {
    const server = await startRedis({ appendOnly: true });
    await server.client().hset('{auth}:keys', 'k1', 'one');
    await job('backup-redis', { REDIS_URL: `redis://127.0.0.1:${server.port}` });
    await server.client().hset('{auth}:keys', 'k2', 'after the backup');
    const newest = await newestOf('redis');
    const whole = await readFile(newest);
    await server.restart();
    await server.kill();
    for (const bytes of [whole.subarray(0, whole.length - 9), whole.subarray(0, whole.length / 2), Buffer.alloc(0)]) {
      await writeFile(newest, bytes);
      expect(await faultOf('restore-redis', { DATA: server.folder })).toContain('is not a whole backup of redis');
      await server.restart();
      expect(await server.client().hlen('{auth}:keys')).toBe(2);
      await server.kill();
    }
    await writeFile(newest, whole);
    await job('restore-redis', { DATA: server.folder });
    await server.restart();
    expect(await server.client().hlen('{auth}:keys')).toBe(1);
    await server.kill();
    await rm(join(server.folder, 'appendonlydir'), { recursive: true });
    await rename(join(server.folder, 'before-restore/appendonlydir'), join(server.folder, 'appendonlydir'));
    await server.restart();
    expect(await server.client().hlen('{auth}:keys')).toBe(2);
    await server.stop();
  });

  describe.skipIf(!HAS_OPENSSL)('over TLS with an authority of your own', () => {
    let certificates: Certificates;
    beforeAll(() => {
      certificates = makeCertificates();
    });
    afterAll(() => certificates?.remove());

    it.skipIf(!HAS_REDIS_TOOLS)('copy Redis from its address, or from the primary that a Sentinel names', async () => {
      const server = await startTlsRedis(
        certificates,
        (await redisUsers()).filter((line) => line.startsWith('user backup ')),
      );
      const sentinel = await startTlsSentinel(certificates, server.port, 'pw-sentinels');
      const password = join(backups, 'sentinel-password');
      await writeFile(password, 'pw-sentinels');
      const values = { REDIS_TLS_CA: certificates.ca, REDIS_SENTINEL_PASSWORD_FILE: password };
      const behind = sentinel.url.replace('//', '//127.0.0.1:1,'); // the first Sentinel is gone
      for (const url of [server.url, sentinel.url, behind, behind.replace('/fleet', '?name=fleet')]) {
        const before = await readdir(backups);
        await job('backup-redis', { ...values, REDIS_URL: url });
        expect(await readdir(backups), url).not.toEqual(before);
        await new Promise((resolve) => setTimeout(resolve, 1_100)); // names have seconds
      }
      for (const [wrong, message] of [
        [{ REDIS_URL: server.url, REDIS_TLS_CA: certificates.otherCa }, 'certificate verify failed'],
        [{ REDIS_URL: sentinel.url.replace('/fleet', '/other') }, 'no Sentinel of 127.0.0.1:'],
        [{ REDIS_URL: `rediss+cluster://127.0.0.1:${server.port}` }, 'run the job for each of them'],
      ] as const)
        expect(await faultOf('backup-redis', { ...values, ...wrong })).toContain(message);
      expect((await readdir(backups)).filter((name) => name.endsWith('.part'))).toEqual([]);
      await Promise.all([server.stop(), sentinel.stop()]);
    });

    it.skipIf(!POSTGRES_PROGRAMS)('copy and restore the ledger', async () => {
      const postgres = await startPostgres({ tls: certificates });
      await postgres.createDatabase('ledger');
      const url = `${postgres.tlsUrl('ledger')}?sslmode=verify-full`;
      const ledger = new UsageLedger(postgresDialect(url, { application: 'spec', tlsCa: certificates.ca }));
      await ledger.open();
      await ledger.append([row('a', Date.now())]);
      await ledger.close();
      const values = { DATABASE_URL: url, DATABASE_TLS_CA: certificates.ca };
      await job('backup-ledger', values);
      await job('restore-ledger', values);
      const wrong = { ...values, DATABASE_TLS_CA: certificates.otherCa };
      expect(await faultOf('backup-ledger', wrong)).toContain('certificate verify failed');
      await postgres.stop();
    });
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
