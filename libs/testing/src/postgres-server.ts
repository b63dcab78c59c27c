import { execFile, type SpawnOptions } from 'node:child_process';
import { chownSync, existsSync, globSync } from 'node:fs';
import { chmod, copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { endChild, eventually, freePort, spawnChild } from './child-process.js';

const run = promisify(execFile);

/** A PostgreSQL server for a test. */
export interface PostgresServer {
  /** URL of a database; `user` defaults to the superuser `toolfleet`. No password is required. */
  url(database: string, user?: string): string;
  /** Creates an empty database and returns its URL. */
  createDatabase(name: string): Promise<string>;
  /** The same database over TLS, on loopback. */
  tlsUrl(database: string): string;
  /** Kills the server and its sessions like a crash. `restart` starts it again with the same data. */
  kill(): Promise<void>;
  restart(): Promise<void>;
  /** Ends the server and removes its data. */
  stop(): Promise<void>;
}

const PROGRAMS = ['initdb', 'postgres', 'pg_isready', 'createdb'];

/**
 * Folder of the PostgreSQL programs, on PATH or where Debian installs them; undefined if there are none. Suites use
 * `describe.skipIf(!POSTGRES_PROGRAMS)`, so that they are reported as skipped on a machine without PostgreSQL.
 */
export const POSTGRES_PROGRAMS: string | undefined = [
  ...(process.env['PATH'] ?? '').split(':'),
  ...globSync('/usr/lib/postgresql/*/bin'),
].find((folder) => PROGRAMS.every((name) => existsSync(join(folder, name))));

const SUPERUSER = 'toolfleet';
/** PostgreSQL refuses to run as root; as root it runs as `nobody`. */
const AS_USER: SpawnOptions = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/** Options of a test server. */
export interface PostgresServerOptions {
  /** Listens on a loopback port as well, with TLS only; `tlsUrl` is its address. */
  tls?: { cert: string; key: string };
}

/** Starts PostgreSQL on a socket in its own folder: no port that could collide with anything. */
export async function startPostgres(options: PostgresServerOptions = {}): Promise<PostgresServer> {
  if (POSTGRES_PROGRAMS === undefined) throw new Error('PostgreSQL is not installed here');
  const bin = POSTGRES_PROGRAMS;
  const folder = await mkdtemp(join(tmpdir(), 'toolfleet-pg-'));
  if (AS_USER.uid !== undefined) chownSync(folder, AS_USER.uid, AS_USER.gid ?? AS_USER.uid);
  const data = join(folder, 'data');
  const program = (name: string, args: readonly string[]) =>
    run(join(bin, name), [...args], { ...AS_USER, cwd: folder } as { cwd: string });
  const layout = ['-D', data, '-U', SUPERUSER, '-A', 'trust', '--no-sync', '-E', 'UTF8', '--locale', 'C'];
  await program('initdb', layout);
  const port = options.tls ? await freePort() : undefined;
  const settings = [
    ...['-D', data, '-k', folder, '-c', 'fsync=off'],
    ...(port === undefined ? ['-c', 'listen_addresses='] : ['-c', 'listen_addresses=127.0.0.1', '-p', String(port)]),
    ...(options.tls ? await tlsSettings(options.tls, data) : []),
  ];
  const launch = () =>
    spawnChild(join(bin, 'postgres'), settings, { ...AS_USER, cwd: folder, stdio: 'ignore' }, folder);
  let child = launch();
  const login = ['-h', folder, '-U', SUPERUSER, ...(port === undefined ? [] : ['-p', String(port)])];
  const isUp = () =>
    program('pg_isready', [...login, '-q']).then(
      () => true,
      () => false,
    );
  const stop = async () => {
    await endChild(child, 'SIGINT'); // "fast": rolls back and ends
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  };
  const untilUp = async () => {
    await eventually('PostgreSQL serves', () => child.exitCode !== null || isUp(), { everyMs: 50 });
    if (child.exitCode !== null) throw new Error(`PostgreSQL ended at once (${child.exitCode})`);
  };
  try {
    await untilUp();
  } catch (error) {
    await stop();
    throw error;
  }
  const url = (database: string, user = SUPERUSER): string =>
    `postgres://${user}@localhost${port === undefined ? '' : `:${port}`}/${database}?host=${encodeURIComponent(folder)}`;
  return {
    url,
    tlsUrl(database) {
      if (port === undefined) throw new Error('started without TLS');
      return `postgres://${SUPERUSER}@localhost:${port}/${database}`;
    },
    async createDatabase(name) {
      await program('createdb', [...login, name]);
      return url(name);
    },
    kill: async () => void (await endChild(child, 'SIGKILL')),
    async restart() {
      await endChild(child, 'SIGINT');
      // Sessions of a killed server hold its memory for a moment longer; the new one refuses to start until they are gone.
      for (let tries = 1; ; tries += 1) {
        child = launch();
        try {
          return await untilUp();
        } catch (error) {
          if (tries === 50) throw error;
        }
      }
    },
    stop,
  };
}

/** PostgreSQL only accepts a key file that it owns. With TLS configured, it rejects TCP connections without TLS. */
async function tlsSettings({ cert, key }: { cert: string; key: string }, data: string): Promise<string[]> {
  for (const [name, source] of Object.entries({ 'server.crt': cert, 'server.key': key })) {
    const file = join(data, name);
    await copyFile(source, file);
    await chmod(file, 0o600);
    if (AS_USER.uid !== undefined) chownSync(file, AS_USER.uid, AS_USER.gid ?? AS_USER.uid);
  }
  await writeFile(join(data, 'pg_hba.conf'), 'local all all trust\nhostssl all all 127.0.0.1/32 trust\n');
  return ['-c', 'ssl=on'];
}
