/**
 * `npm run test:cluster`: the fleet on a NATS cluster, on Redis with Sentinel, on Redis Cluster and on PostgreSQL, parts of which
 * are killed under load. Missing programs are skipped by name; a skip is never a pass.
 */
import { existsSync, globSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { redisTools } from './broker-programs.mjs';

const postgres = [...(process.env.PATH ?? '').split(delimiter), ...globSync('/usr/lib/postgresql/*/bin')];
if (!postgres.some((folder) => existsSync(join(folder, 'initdb')))) {
  process.stdout.write('skipped: the ledger in PostgreSQL; initdb and postgres are not installed here\n');
}
const path = await redisTools(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));
if (path === undefined)
  process.stdout.write('skipped: backups of Redis; redis-cli and redis-check-rdb are not installed here\n');
else process.env.PATH = path;
process.env.TEST_PROJECTS = 'cluster';
if (process.argv.length === 2) process.argv.push('test/cluster');
await import('./test.mjs');
