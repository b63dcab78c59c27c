/**
 * What `npm start`, `npm test` and `npm run bench` need on a bare machine: dependencies as locked, a new enough Node, the
 * brokers' programs, built code. Then hands over to the script of that name in tools/local, on that Node.
 *
 * Runs on Node >= 20 and uses nothing that has to be installed first.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brokerPrograms } from './local/broker-programs.mjs';
import { lastLines, runProgram } from './local/run-program.mjs';
import { complain, say, step } from './local/steps.mjs';

const startedAt = Date.now();
const parent = process.ppid;
const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const NODE_MAJOR = 24;
const BIN = join(ROOT, 'node_modules', '.bin');
const SHOWN_LINES = 40;

const [script, ...args] = process.argv.slice(2);
const target = join(ROOT, 'tools', 'local', `${script}.mjs`);
if (!script || !existsSync(target)) fail(`usage: node tools/setup.mjs <up|test|bench> [arguments]`);
// Programs that run meanwhile end with this process.
const interrupts = ['SIGINT', 'SIGTERM', 'SIGHUP'];
const interrupt = () => process.exit(1);
for (const signal of interrupts) process.once(signal, interrupt);

// The brokers may be named there. Node before 20.12 leaves it to the script.
if (script === 'up' && existsSync(join(ROOT, '.env'))) process.loadEnvFile?.(join(ROOT, '.env'));

// Side by side: one waits for the disk, the other for the network.
const outcomes = await Promise.allSettled([installDependencies(), findBrokers()]);
const failures = outcomes.flatMap(({ reason }) => (reason ? [reason.message] : []));
if (failures.length > 0) fail(failures.join('\ntoolfleet: '));
const node = await pinnedNode();
try {
  await step('building', build);
} catch (error) {
  fail(error.message);
}
handOver(node);

async function build() {
  await run(node, [join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc'), '-b'], 'the build failed');
  await run(node, [join(ROOT, 'tools', 'build-console.mjs')], 'the build of the console failed');
  if (script === 'up')
    await run(node, [join(ROOT, 'tools/release/packages.mjs'), 'fleetctl'], 'the bundle of fleetctl failed');
}

async function installDependencies() {
  if (dependenciesMatchLockfile()) return;
  await step('installing dependencies as locked', () =>
    run(
      'npm',
      ['ci', '--no-audit', '--no-fund', '--loglevel=error'],
      'npm ci failed. When it names the network, check the registry and proxy that npm uses:\n  npm config list\n',
    ),
  );
}

/** Gets the brokers' programs where they are missing; the script itself finds them again. */
async function findBrokers() {
  if (script === 'up' && process.env.NATS_URL && process.env.REDIS_URL) return;
  await step('finding nats-server and redis-server', () => brokerPrograms(ROOT, say));
}

/** True when every locked package is installed in the locked version (optional ones may be missing: other platforms). */
function dependenciesMatchLockfile() {
  const installed = readJson(join(ROOT, 'node_modules', '.package-lock.json'));
  const locked = readJson(join(ROOT, 'package-lock.json'));
  if (!installed || !locked) return false;
  for (const [path, entry] of Object.entries(locked.packages)) {
    if (path === '' || !path.includes('node_modules/')) continue;
    // A package of this repository that is new since the last installation.
    if (entry.link) {
      if (!existsSync(join(ROOT, path))) return false;
      continue;
    }
    const have = installed.packages[path];
    if (have ? have.version !== entry.version : !entry.optional && !entry.peer) return false;
  }
  return true;
}

/** The Node of the locked `node-linux-*` package, else this process's own when it is new enough. */
async function pinnedNode() {
  const pinned = join(BIN, 'node');
  if (existsSync(pinned) && (await runProgram(pinned, ['--version'])).ok) return pinned;
  if (Number(process.versions.node.split('.')[0]) >= NODE_MAJOR) return process.execPath;
  return fail(
    `this platform needs Node ${NODE_MAJOR} or newer on PATH (here: ${process.version}); install it and repeat`,
  );
}

/** Runs the real script as a child; the IPC channel tells it when this process is gone, so nothing is left behind. */
function handOver(nodePath) {
  for (const signal of interrupts) process.removeListener(signal, interrupt);
  const child = spawn(nodePath, [target, ...args], {
    cwd: ROOT,
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, PATH: `${BIN}:${process.env.PATH ?? ''}`, TOOLFLEET_STARTED_AT: String(startedAt) },
  });
  for (const signal of interrupts) process.on(signal, () => child.kill(signal));
  // A killed npm leaves this process with another parent: nothing could stop the fleet any more, so it stops itself.
  setInterval(() => process.ppid !== parent && child.kill('SIGTERM'), 1_000).unref();
  child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
}

/** Runs a program of the set-up; its output is shown when it fails. */
async function run(command, commandArgs, whatFailed) {
  const { ok, output } = await runProgram(command, commandArgs, { cwd: ROOT });
  if (!ok) throw new Error(`${lastLines(output, SHOWN_LINES)}\ntoolfleet: ${whatFailed}`);
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

function fail(message) {
  complain(message);
  process.exit(1);
}
