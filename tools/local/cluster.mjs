/**
 * `npm run test:cluster`: the fleet on a NATS cluster, on Redis with Sentinel, on Redis Cluster and on PostgreSQL, parts of which
 * are killed under load. What the machine lacks is skipped by name; a skip is never a pass.
 */
import { existsSync, globSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const postgres = [...(process.env.PATH ?? '').split(delimiter), ...globSync('/usr/lib/postgresql/*/bin')];
if (!postgres.some((folder) => existsSync(join(folder, 'initdb')))) {
  process.stdout.write('skipped: the ledger in PostgreSQL; initdb and postgres are not installed here\n');
}
process.env.TEST_PROJECTS = 'cluster';
if (process.argv.length === 2) process.argv.push('test/cluster');
await import('./test.mjs');
