import { execFile, type SpawnOptions } from 'node:child_process';
import { chownSync, existsSync, globSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { endChild, eventually, spawnChild } from './child-process.js';

const run = promisify(execFile);

/** A PostgreSQL server for a test. */
export interface PostgresServer {
  /** URL of a database; `user` defaults to the superuser `toolfleet`. Nobody needs a password. */
  url(database: string, user?: string): string;
  /** Makes an empty database and returns its URL. */
  createDatabase(name: string): Promise<string>;
  /** Ends the server and removes its data. */
  stop(): Promise<void>;
}

const PROGRAMS = ['initdb', 'postgres', 'pg_isready', 'createdb'];

/**
 * Folder of the PostgreSQL programs: on PATH, or where Debian keeps them; undefined on a machine without. Suites that need it
 * say `describe.skipIf(!POSTGRES_PROGRAMS)`, so that a machine without it shows them as skipped.
 */
export const POSTGRES_PROGRAMS: string | undefined = [
  ...(process.env['PATH'] ?? '').split(':'),
  ...globSync('/usr/lib/postgresql/*/bin'),
].find((folder) => PROGRAMS.every((name) => existsSync(join(folder, name))));

const SUPERUSER = 'toolfleet';
/** PostgreSQL refuses to run as root; as root it runs as `nobody`. */
const AS_USER: SpawnOptions = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/** Starts PostgreSQL on a socket in a folder of its own: no port that could collide with anything. */
export async function startPostgres(): Promise<PostgresServer> {
  if (POSTGRES_PROGRAMS === undefined) throw new Error('PostgreSQL is not installed here');
  const bin = POSTGRES_PROGRAMS;
  const folder = await mkdtemp(join(tmpdir(), 'toolfleet-pg-'));
  if (AS_USER.uid !== undefined) chownSync(folder, AS_USER.uid, AS_USER.gid ?? AS_USER.uid);
  const data = join(folder, 'data');
  const program = (name: string, args: readonly string[]) =>
    run(join(bin, name), [...args], { ...AS_USER, cwd: folder } as { cwd: string });
  const options = ['-D', data, '-U', SUPERUSER, '-A', 'trust', '--no-sync', '-E', 'UTF8', '--locale', 'C'];
  await program('initdb', options);
  const settings = ['-D', data, '-k', folder, '-c', 'listen_addresses=', '-c', 'fsync=off'];
  const child = spawnChild(join(bin, 'postgres'), settings, { ...AS_USER, cwd: folder, stdio: 'ignore' }, folder);
  const login = ['-h', folder, '-U', SUPERUSER];
  const isUp = () =>
    program('pg_isready', [...login, '-q']).then(
      () => true,
      () => false,
    );
  const stop = async () => {
    await endChild(child, 'SIGINT'); // "fast": rolls back and ends
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  };
  try {
    await eventually('PostgreSQL serves', () => child.exitCode !== null || isUp(), { timeoutMs: 30_000, everyMs: 50 });
    if (child.exitCode !== null) throw new Error(`PostgreSQL ended at once (${child.exitCode})`);
  } catch (error) {
    await stop();
    throw error;
  }
  const url = (database: string, user = SUPERUSER): string =>
    `postgres://${user}@localhost/${database}?host=${encodeURIComponent(folder)}`;
  return {
    url,
    async createDatabase(name) {
      await program('createdb', [...login, name]);
      return url(name);
    },
    stop,
  };
}
