/**
 * Finds `nats-server` and `redis-server` (or `valkey-server`), or gets them without changing the system: PATH, then programs
 * unpacked earlier under `.toolfleet/`, then Debian/Ubuntu packages downloaded and unpacked there. A program counts as found
 * when `--version` succeeds: an executable without its libraries is not one.
 * Runs on Node >= 20 and uses nothing that has to be installed first.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { basename, delimiter, dirname, join } from 'node:path';
import { UnpackError, unpackDebianPackages } from './debian-packages.mjs';
import { lastLines, runProgram } from './run-program.mjs';

const WANTED = { nats: ['nats-server'], redis: ['redis-server', 'valkey-server'] };
/** Programs of the backup jobs of deploy/k8s/backup. */
const REDIS_TOOLS = ['redis-cli', 'redis-check-rdb'];
/** Debian packages with the programs: redis-server's is in redis-tools. */
const PACKAGES = ['nats-server', 'redis-server', 'redis-tools'];
/** Where programs are that the PATH of an ordinary user does not name. */
const SYSTEM_FOLDERS = ['/usr/sbin', '/usr/local/sbin', '/usr/local/bin', '/opt/homebrew/bin'];
const VERSION_WITHIN_MS = 20_000;
/** Containers often have no sudo, and root needs none. */
const SUDO = process.getuid?.() === 0 ? '' : 'sudo ';
const OWN_BROKERS =
  'docker compose up -d nats redis && NATS_URL=nats://127.0.0.1:4222 REDIS_URL=redis://127.0.0.1:6379 npm start';

/**
 * Programs that run on this machine.
 * @param {string} root folder of the clone; programs are unpacked below its `.toolfleet`
 * @param {(line: string) => void} say
 * @returns {Promise<{nats: string, redis: string, path: string}>} both programs, and a PATH on which they come first
 * @throws {Error} with the missing program, the words of the program that failed, and the command that helps
 */
export async function brokerPrograms(root, say) {
  const unpacked = join(root, '.toolfleet', 'broker-programs');
  const found = await locate(unpacked);
  if (found.nats && found.redis) return withPath(found);
  for (const line of found.broken) say(line);
  if (!onPath('apt-get') || !onPath('dpkg-deb')) throw new Error(howToInstall(found));
  say('getting nats-server and redis-server as Debian packages (unpacked under .toolfleet; the system is not changed)');
  const programs = [...WANTED.nats, WANTED.redis[0]];
  try {
    await unpackDebianPackages({ packages: PACKAGES, programs, target: unpacked, verify });
  } catch (error) {
    if (!(error instanceof UnpackError)) throw error;
    throw new Error(
      `${lacking(found)} not found, and apt-get could not get them.\n${error.message}\n${helpFor(error)}`,
      { cause: error },
    );
  }
  const now = await locate(unpacked);
  if (!now.nats || !now.redis) throw new Error(howToInstall(now));
  return withPath(now);
}

/**
 * The tools of Redis, on PATH or unpacked below `.toolfleet`.
 * @param {string} root folder of the clone
 * @returns {Promise<string | undefined>} a PATH on which they are; undefined when they can neither be found nor got
 */
export async function redisTools(root) {
  const path = process.env.PATH ?? '';
  if (REDIS_TOOLS.every(onPath)) return path;
  const target = join(root, '.toolfleet', 'redis-tools');
  if (!existsSync(target)) {
    if (!onPath('apt-get') || !onPath('dpkg-deb')) return undefined;
    try {
      await unpackDebianPackages({ packages: ['redis-tools'], programs: REDIS_TOOLS, target, verify });
    } catch (error) {
      if (error instanceof UnpackError) return undefined;
      throw error;
    }
  }
  return [join(target, 'bin'), path].join(delimiter);
}

/** The program's error when it does not run; undefined when it runs. */
async function verify(program) {
  const { ok, output } = await runProgram(program, ['--version'], { timeoutMs: VERSION_WITHIN_MS });
  return ok ? undefined : lastLines(output, 2) || 'it ended with an error';
}

/** The first program of each kind that runs, and a line for each that does not. */
async function locate(unpacked) {
  const named = [
    ...(process.env.PATH ?? '').split(delimiter).filter(Boolean),
    ...SYSTEM_FOLDERS,
    join(unpacked, 'bin'),
  ];
  // `/bin` and `/usr/bin` are one folder on many systems; PATH names folders twice.
  const folders = new Map(named.filter(existsSync).map((folder) => [realpathSync(folder), folder]));
  const broken = [];
  const first = async (names) => {
    for (const folder of folders.values()) {
      for (const program of names.map((name) => join(folder, name))) {
        if (!existsSync(program)) continue;
        const problem = await verify(program);
        if (problem === undefined) return program;
        broken.push(`${program} does not run: ${problem}`);
      }
    }
    return undefined;
  };
  const [nats, redis] = await Promise.all([first(WANTED.nats), first(WANTED.redis)]);
  return { nats, redis, broken };
}

function withPath({ nats, redis }) {
  const path = (process.env.PATH ?? '').split(delimiter);
  // Only programs that a look-up would miss: the order of other folders decides about other programs.
  const missed = [nats, redis].filter((program) => {
    const seen = path.find((folder) => folder && existsSync(join(folder, basename(program))));
    return seen !== dirname(program);
  });
  return { nats, redis, path: [...new Set(missed.map((program) => dirname(program))), ...path].join(delimiter) };
}

function onPath(program) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => folder && existsSync(join(folder, program)));
}

function lacking({ nats, redis }) {
  return [nats ? '' : 'nats-server', redis ? '' : 'redis-server'].filter(Boolean).join(' and ');
}

/** The command that helps against a failure of apt-get. */
function helpFor({ kind }) {
  switch (kind) {
    case 'proxy':
      return 'A proxy (or the package server) refused. Name a proxy that lets you through:\n  http_proxy=http://HOST:PORT npm start';
    case 'network':
      return 'The package server or the proxy in between cannot be reached. When this machine is online, repeat:\n  npm start';
    case 'unknown package':
      return `apt's sources have no such package for ${process.arch}. Run the brokers in containers, or name your own:\n  ${OWN_BROKERS}`;
    default:
      return `Install them by hand, then repeat npm start:\n  ${SUDO}apt-get install nats-server redis-server`;
  }
}

function howToInstall(found) {
  const broken = found.broken.map((line) => `\n${line}`).join('');
  return `${lacking(found)} not found.${broken}\nInstall what is missing, then repeat npm start:\n  ${installCommand(found)}`;
}

/** The command of this platform's package manager. */
function installCommand({ nats, redis }) {
  const names = (natsPackage, redisPackage) =>
    [nats ? '' : natsPackage, redis ? '' : redisPackage].filter(Boolean).join(' ');
  if (process.platform === 'darwin') return `brew install ${names('nats-server', 'redis')}`;
  const system = readRelease();
  if (/\balpine\b/.test(system)) return `${SUDO}apk add ${names('nats-server', 'redis')}`;
  if (/\barch\b/.test(system)) return `${SUDO}pacman -S ${names('nats-server', 'valkey')}`;
  if (/\b(fedora|rhel|centos)\b/.test(system)) {
    // Fedora and its relatives have no package of nats-server.
    const build = `${SUDO}env GOBIN=/usr/local/bin go install github.com/nats-io/nats-server/v2@latest`;
    return [`${SUDO}dnf install ${names('golang', 'valkey')}`, nats ? '' : build].filter(Boolean).join(' && ');
  }
  return OWN_BROKERS;
}

/** `ID` and `ID_LIKE` of os-release(5); empty where there is no such file. */
function readRelease() {
  try {
    const text = readFileSync('/etc/os-release', 'utf8');
    return [...text.matchAll(/^ID(?:_LIKE)?=(.*)$/gm)].map(([, value]) => value).join(' ');
  } catch {
    return '';
  }
}
