/**
 * Stand-ins for the images of docker-compose.yml where they cannot be pulled, made of this machine's programs with their libraries:
 * one root file system with Node, NATS, Redis and PostgreSQL, in place of `node`, `nats`, `redis` and `postgres`. The watchers
 * (collector, Prometheus, Alertmanager, Grafana) have none and are left out.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Programs of the scripts, health checks and Dockerfile of deploy/. */
const TOOLS = 'sh cat basename rm mkdir chown chmod ls grep sed wget env id sleep'.split(' ');
/** Native packages of npm still link to these libraries, empty in newer versions of the C library. */
const PARTS_OF_LIBC = ['libdl.so.2', 'libpthread.so.0', 'libresolv.so.2', 'librt.so.1', 'libutil.so.1'];
const LIBRARIES = `/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`;
const BROKERS = [['nats-server'], ['redis-server', 'valkey-server'], ['redis-cli', 'valkey-cli']];
const POSTGRES = '/usr/lib/postgresql';
const NPM = '/usr/lib/node_modules/npm';
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';

/** Makes the cluster on a new volume as the entry point of the official image does, and runs the server. */
const START_POSTGRES = `#!/bin/sh
set -eu
bin=$(echo ${POSTGRES}/*/bin)
data=/var/lib/postgresql/data
if [ ! -e "$data/PG_VERSION" ]; then
  "$bin/initdb" -D "$data" -U "$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-host=scram-sha-256 >/dev/null
  echo "host all all all scram-sha-256" >> "$data/pg_hba.conf"
  echo "CREATE DATABASE $POSTGRES_DB" | "$bin/postgres" --single -D "$data" postgres >/dev/null
fi
exec "$bin/postgres" -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp
`;

/** Copies a program of PATH with the libraries it names to the same places below `root`, and to `usr/bin` as `as`. */
export function copyProgram(name: string, root: string, as = name): void {
  const found = find(name);
  if (found === '') throw new Error(`${name} is not on PATH`);
  const path = realpathSync(found);
  place(path, join(root, 'usr/bin', as));
  copyLibraries(path, root);
}

function copyLibraries(path: string, root: string): void {
  const { stdout } = spawnSync('ldd', [path], { encoding: 'utf8' });
  for (const [library] of (stdout ?? '').matchAll(/\/[^\s:]+\.so[^\s:]*/g)) place(library, join(root, library));
}

function place(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  if (!existsSync(to)) copyFileSync(from, to);
}

/**
 * Writes the build context of the stand-ins.
 * @param options.whole also PostgreSQL, and npm with the certificates of this machine, to build the workspace inside
 * @returns Dockerfiles by the image that each replaces; each builds on `base`
 */
export function writeStandIns(folder: string, base: string, { whole }: { whole: boolean }): Record<string, string> {
  const root = join(folder, 'root');
  for (const name of ['etc', 'tmp', 'run', 'root', 'proc', 'sys', 'dev', 'usr/local/bin'])
    mkdirSync(join(root, name), { recursive: true });
  chmodSync(join(root, 'tmp'), 0o1777);
  for (const name of TOOLS) copyProgram(name, root);
  for (const names of BROKERS) copyBroker(names, root);
  place(process.execPath, join(root, 'usr/bin/node'));
  copyLibraries(process.execPath, root);
  for (const name of PARTS_OF_LIBC) place(join(LIBRARIES, name), join(root, LIBRARIES, name));
  symlinkSync('usr/bin', join(root, 'bin'));
  writeFileSync(join(root, 'etc/nsswitch.conf'), 'passwd: files\nhosts: files dns\n');
  writeFileSync(
    join(root, 'etc/passwd'),
    'root:x:0:0::/root:/bin/sh\nredis:x:999:1000::/data:/bin/sh\npostgres:x:70:70::/:/bin/sh\n',
  );
  writeFileSync(join(root, 'etc/group'), 'root:x:0:\nredis:x:1000:\npostgres:x:70:\n');
  const files = {
    base: `FROM scratch\nCOPY root /\nENV PATH=/usr/local/bin:/usr/bin\n`,
    nats: `FROM ${base}\n`,
    redis: `FROM ${base}\nRUN mkdir /data && chown 999:1000 /data\n`,
  };
  if (!whole) return files;
  cpSync(NPM, join(root, NPM), { recursive: true });
  for (const name of ['npm', 'npx']) symlinkSync(join(NPM, `bin/${name}-cli.js`), join(root, 'usr/local/bin', name));
  place(CERTIFICATES, join(root, CERTIFICATES));
  const data = join(folder, 'postgres');
  copyPostgres(data);
  writeFileSync(join(data, 'start-postgres.sh'), START_POSTGRES);
  return {
    ...files,
    base: `${files.base}ENV NODE_EXTRA_CA_CERTS=${CERTIFICATES} npm_config_cache=/var/cache/npm npm_config_prefer_offline=true\n`,
    postgres: `FROM ${base}
COPY postgres /
RUN mkdir -p /var/lib/postgresql/data && chown 70:70 /var/lib/postgresql/data && chmod 0700 /var/lib/postgresql/data
USER 70:70
ENV PGHOST=/tmp
ENTRYPOINT ["sh", "/start-postgres.sh"]
`,
  };
}

/** A broker of PATH, or the one that `npm test` unpacked with its libraries behind a start script. */
function copyBroker(names: readonly string[], root: string): void {
  const name = names.find((each) => find(each) !== '') ?? names[0]!;
  const folder = dirname(find(name) || find('redis-server'));
  if (basename(dirname(folder)) !== 'broker-programs') return copyProgram(name, root, names[0]);
  const unpacked = join(root, 'opt/brokers');
  if (!existsSync(unpacked)) cpSync(dirname(folder), unpacked, { recursive: true, verbatimSymlinks: true });
  const start = readFileSync(join(folder, 'redis-server'), 'utf8');
  const text = start.replace(/^here=.*/m, 'here=/opt/brokers').replace(/\/[\w-]+" "\$@"/, `/${name}" "$@"`);
  const isThere = ['bin', 'sbin'].find((bin) => existsSync(join(unpacked, 'usr', bin, name)))!;
  writeFileSync(join(root, 'usr/bin', names[0]!), text.replace(/\/usr\/s?bin\//, `/usr/${isThere}/`), { mode: 0o755 });
}

/** Place of a program; empty where there is none. */
function find(name: string): string {
  const search = 'PATH="$PATH:/usr/sbin:/sbin"; command -v "$0"';
  return spawnSync('/bin/sh', ['-c', search, name], { encoding: 'utf8' }).stdout.trim();
}

function copyPostgres(root: string): void {
  const bin = execFileSync('/bin/sh', ['-c', `echo ${POSTGRES}/*/bin`], { encoding: 'utf8' }).trim();
  const version = basename(dirname(bin));
  cpSync(dirname(bin), join(root, dirname(bin)), {
    recursive: true,
    filter: (path) => !/bitcode|llvmjit|\/pgxs/.test(path),
  });
  for (const program of ['initdb', 'postgres', 'pg_isready', 'pg_ctl', 'psql']) {
    const path = join(bin, program);
    if (!existsSync(path)) continue;
    copyLibraries(path, root);
    mkdirSync(join(root, 'usr/bin'), { recursive: true });
    symlinkSync(path, join(root, 'usr/bin', program));
  }
  for (const folder of [`/usr/share/postgresql/${version}`, '/usr/share/zoneinfo'])
    cpSync(folder, join(root, folder), { recursive: true, filter: (path) => !/\/(?:right|posix)(?:\/|$)/.test(path) });
  for (const name of ['dict_snowball', 'plpgsql']) {
    const library = join(dirname(bin), 'lib', `${name}.so`);
    if (existsSync(library)) copyLibraries(library, root);
  }
}
