/**
 * Finds `nats-server` and `redis-server` (or `valkey-server`), or gets them without changing the system:
 * PATH, then programs unpacked earlier under `.toolfleet/`, then Debian/Ubuntu packages downloaded and unpacked there.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const WANTED = { nats: ['nats-server'], redis: ['redis-server', 'valkey-server'] };
/** Debian packages: redis-server's program lives in redis-tools. */
const PACKAGES = ['nats-server', 'redis-server', 'redis-tools'];

/**
 * @param {string} stateDir folder for unpacked programs (`.toolfleet`)
 * @returns {{nats: string, redis: string, env: Record<string, string>}} paths of both programs and the environment they need
 */
export function brokerPrograms(stateDir, say) {
  const unpacked = join(stateDir, 'broker-programs');
  const found = locate(unpacked);
  if (found.nats && found.redis) return found;
  if (!has('apt-get') || !has('dpkg-deb')) throw new Error(howToInstall(found));
  say('getting nats-server and redis-server as Debian packages (unpacked under .toolfleet, the system stays as it is)');
  download(join(stateDir, 'debian'), unpacked);
  const now = locate(unpacked);
  if (!now.nats || !now.redis) throw new Error(howToInstall(now));
  return now;
}

function locate(unpacked) {
  const dirs = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  const own = [join(unpacked, 'usr/bin'), join(unpacked, 'usr/sbin')];
  const first = (names) => {
    for (const dir of [...dirs, ...own])
      for (const name of names) if (dir && existsSync(join(dir, name))) return join(dir, name);
    return undefined;
  };
  return { nats: first(WANTED.nats), redis: first(WANTED.redis), env: { LD_LIBRARY_PATH: libraryPath(unpacked) } };
}

function libraryPath(unpacked) {
  const folders = ['usr/lib', 'lib'].flatMap((lib) => {
    const base = join(unpacked, lib);
    return existsSync(base)
      ? readdirSync(base)
          .filter((name) => name.includes('-linux-'))
          .map((name) => join(base, name))
      : [];
  });
  return [...folders, process.env.LD_LIBRARY_PATH ?? ''].filter(Boolean).join(':');
}

function download(workDir, unpacked) {
  rmSync(workDir, { recursive: true, force: true });
  mkdirSync(join(workDir, 'lists/partial'), { recursive: true });
  mkdirSync(join(workDir, 'cache/archives/partial'), { recursive: true });
  // A cache of our own: apt does not name a package whose file the system's cache already holds.
  let options = ['-o', `Dir::Cache=${join(workDir, 'cache')}`];
  if (!candidate(options)) {
    // Empty package lists: fetch them into our own folder, which needs no root and changes nothing on the system.
    options = [...options, '-o', `Dir::State::Lists=${join(workDir, 'lists')}`];
    apt([...options, 'update'], workDir);
  }
  const missing = spawnSync(
    'apt-get',
    [...options, 'install', '--print-uris', '-y', '--no-install-recommends', ...PACKAGES],
    { encoding: 'utf8' },
  );
  // Lines are `'uri' name_version_arch.deb size hash`: the dependencies this system lacks.
  const names = (missing.stdout ?? '')
    .split('\n')
    .map((line) => /^'[^']+' ([^_]+)_/.exec(line)?.[1])
    .filter(Boolean);
  apt([...options, 'download', ...new Set([...PACKAGES, ...names])], workDir);
  for (const file of readdirSync(workDir).filter((name) => name.endsWith('.deb'))) {
    const result = spawnSync('dpkg-deb', ['-x', join(workDir, file), unpacked], { encoding: 'utf8' });
    if (result.status !== 0) throw new Error(`dpkg-deb could not unpack ${file}: ${result.stderr}`);
  }
  rmSync(workDir, { recursive: true, force: true });
}

function candidate(options) {
  const result = spawnSync('apt-cache', [...options, 'policy', 'nats-server'], { encoding: 'utf8' });
  return /Candidate: \d/.test(result.stdout ?? '');
}

function apt(args, cwd) {
  const result = spawnSync('apt-get', args, { cwd, encoding: 'utf8' });
  if (result.status !== 0)
    throw new Error(`apt-get ${args.at(-1)} failed: ${(result.stderr ?? '').trim().split('\n').at(-1)}`);
}

function has(program) {
  return (process.env.PATH ?? '').split(delimiter).some((dir) => dir && existsSync(join(dir, program)));
}

function howToInstall({ nats, redis }) {
  const lacking = [nats ? '' : 'nats-server', redis ? '' : 'redis-server'].filter(Boolean);
  const command =
    process.platform === 'darwin'
      ? `brew install ${lacking.join(' ').replace('redis-server', 'redis')}`
      : 'docker compose up -d nats redis && NATS_URL=nats://127.0.0.1:4222 REDIS_URL=redis://127.0.0.1:6379 npm start';
  return `${lacking.join(' and ')} not found on PATH. Get them with:\n  ${command}`;
}
