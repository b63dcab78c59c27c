/**
 * The container engine of this machine, for tests: podman (its builder is buildah) with a store that is removed afterwards, or docker.
 * Nothing is installed. `CONTAINER_ENGINE=docker|podman` chooses; otherwise podman, then docker.
 */
import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { copyProgram } from './stand-ins.js';

const MAX_OUTPUT = 64 * 2 ** 20;
const BUILD_LIMIT_MS = 20 * 60_000;

/** An engine that runs containers here. */
export interface Engine {
  readonly name: 'docker' | 'podman';
  readonly version: string;
  /** Whether its store of images belongs to this process, so that images of the machine are neither used nor changed. */
  readonly hasOwnStore: boolean;
  /** Runs a command of the engine. @returns its output @throws Error with its command and its last lines */
  run(...args: string[]): Promise<string>;
  /** Runs the engine's Compose on a file. */
  compose(file: string, ...args: string[]): Promise<string>;
  /** Removes the store of images, unless `CONTAINERS_KEEP` names its folder. */
  close(): Promise<void>;
}

/** Why there is no engine, with the command that gets one. */
export interface NoEngine {
  readonly missing: string;
}

const TO_INSTALL =
  'install podman (apt-get install --no-install-recommends podman podman-compose crun runc netavark aardvark-dns catatonit) or docker with its Compose plugin';
/** Programs of podman and where Debian puts those that are not on PATH. */
const OF_PODMAN = [
  ['podman'],
  ['podman-compose'],
  ['conmon'],
  ['crun', 'runc'],
  ['/usr/lib/podman/netavark', '/usr/libexec/podman/netavark'],
  ['/usr/lib/podman/aardvark-dns', '/usr/libexec/podman/aardvark-dns'],
  ['/usr/libexec/podman/catatonit', '/usr/lib/podman/catatonit', 'catatonit'],
];

const answers = (program: string, ...args: string[]): boolean =>
  spawnSync(program, args, { stdio: 'ignore', timeout: 30_000 }).status === 0;

const exists = (program: string): boolean =>
  spawnSync('/bin/sh', ['-c', 'command -v "$0"', program], { stdio: 'ignore' }).status === 0;

/** Finds the engine and shows that it can run a container. */
export async function findEngine(): Promise<Engine | NoEngine> {
  const wanted = process.env['CONTAINER_ENGINE'];
  if (wanted !== 'docker' && exists('podman')) return findPodman();
  if (wanted === 'podman' || !exists('docker')) return { missing: `no container engine: ${TO_INSTALL}` };
  if (!answers('docker', 'info'))
    return { missing: 'docker is installed, but its daemon does not answer `docker info`' };
  if (!answers('docker', 'compose', 'version'))
    return { missing: 'docker has no Compose: install its package docker-compose-plugin' };
  return engineOf('docker', process.env, () => Promise.resolve());
}

async function findPodman(): Promise<Engine | NoEngine> {
  const lacks = OF_PODMAN.filter((names) => !names.some(exists)).map(([name]) => name!.split('/').at(-1));
  if (lacks.length > 0) return { missing: `podman lacks ${lacks.join(', ')}: ${TO_INSTALL}` };
  if (process.getuid?.() !== 0) return { missing: 'podman without root is not tested: run as root or use docker' };
  const kept = process.env['CONTAINERS_KEEP'];
  const failures: string[] = [];
  const ways = ['crun', 'runc'].filter(exists).flatMap((runtime) => [`${runtime} overlay`, `${runtime} vfs`]);
  for (const way of ways) {
    const folder = kept ?? mkdtempSync(join(tmpdir(), 'toolfleet-containers-'));
    const rootfs = join(folder, 'probe');
    copyProgram('sh', rootfs);
    const env = { ...process.env, ...podmanSettings(folder, ...(way.split(' ') as [string, string])) };
    const engine = engineOf('podman', env, cleaner(env, kept === undefined ? folder : ''));
    try {
      await engine.run('run', '--rm', '--init', '--network', 'none', '--rootfs', rootfs, 'sh', '-c', 'exit 0');
      return engine;
    } catch (error) {
      failures.push((error as Error).message);
      await engine.close();
    }
  }
  return { missing: `podman cannot run a container here: ${failures.join('; ')}` };
}

/** Ends all containers of a store and removes it, unless it is kept, once its input closes. */
const CLEAN = `cat
podman rm --all --force --time 0
podman network prune --force
podman volume prune --force
[ -z "$0" ] || { podman rmi --all --force; rm -rf "$0"; }`;

/** Starts a process that cleans up when this one ends in any way. @returns a function that has it clean up now */
function cleaner(env: NodeJS.ProcessEnv, folder: string): () => Promise<void> {
  const child = spawn('/bin/sh', ['-c', CLEAN, folder], { env, detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
  child.unref();
  (child.stdin as Socket).unref();
  const ended = once(child, 'exit');
  return async () => {
    child.ref();
    child.stdin.end();
    await ended;
  };
}

/** Writes settings by which podman, its builder and podman-compose use `folder` only. @returns the variables that name them */
function podmanSettings(folder: string, runtime: string, driver: string): Record<string, string> {
  const [storage, containers] = [join(folder, 'storage.conf'), join(folder, 'containers.conf')];
  writeFileSync(
    storage,
    `[storage]\ndriver = "${driver}"\ngraphroot = "${join(folder, 'store')}"\nrunroot = "${join(folder, 'run')}"\n`,
  );
  // Without the right to raise limits, containers keep those of this process.
  const limit = (flag: string) => execFileSync('/bin/bash', ['-c', `ulimit -H${flag}`], { encoding: 'utf8' }).trim();
  const bounded = (text: string, most: number) => (text === 'unlimited' ? most : Math.min(Number(text), most));
  const [files, processes] = [bounded(limit('n'), 65_536), Math.floor(bounded(limit('u'), 65_536) / 2)];
  writeFileSync(
    containers,
    `[containers]
default_ulimits = ["nofile=${files}:${files}", "nproc=${processes}:${processes}"]
[engine]
runtime = "${runtime}"
tmp_dir = "${join(folder, 'tmp')}"
lock_type = "file"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "${join(folder, 'net')}"
`,
  );
  // Images of the format OCI, the default, have no health check.
  return { CONTAINERS_STORAGE_CONF: storage, CONTAINERS_CONF: containers, BUILDAH_FORMAT: 'docker' };
}

/** An abstract socket: it ends with this process. */
const RESERVED = '\0toolfleet-containers';

/**
 * Waits until no other process of this machine starts networks: two stores of podman choose the same addresses until containers use them.
 * @returns a server to close once they do
 */
export async function reserveAddresses(): Promise<Server> {
  for (;;) {
    const server = createServer().unref();
    const isOurs = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(RESERVED, () => resolve(true));
    });
    if (isOurs) return server;
    await sleep(500);
  }
}

function engineOf(name: Engine['name'], env: NodeJS.ProcessEnv, close: () => Promise<void>): Engine {
  const execute = async (program: string, args: readonly string[]): Promise<string> => {
    try {
      const options = { env, maxBuffer: MAX_OUTPUT, timeout: BUILD_LIMIT_MS };
      return (await promisify(execFile)(program, args, options)).stdout;
    } catch (error) {
      const { stderr = '', stdout = '' } = error as { stderr?: string; stdout?: string };
      const said = (stderr || stdout).trim().split('\n').slice(-12).join('\n');
      throw new Error(`${program} ${args.join(' ')}: ${said}`, { cause: error });
    }
  };
  const [composer, ...first] = name === 'docker' ? ['docker', 'compose'] : ['podman-compose'];
  return {
    name,
    version: execFileSync(name, ['--version'], { encoding: 'utf8' }).trim(),
    hasOwnStore: name === 'podman',
    run: (...args) => execute(name, args),
    compose: (file, ...args) => execute(composer!, [...first, '-f', file, ...args]),
    close,
  };
}
