/**
 * What `npm start`, `npm test` and `npm run bench` need on a bare machine: dependencies as locked, a new enough Node,
 * built code. Then hands over to the script of that name in tools/local, on that Node.
 *
 * Runs on Node >= 20 and uses nothing that has to be installed first.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const NODE_MAJOR = 24;
const BIN = join(ROOT, 'node_modules', '.bin');

const [script, ...args] = process.argv.slice(2);
const target = join(ROOT, 'tools', 'local', `${script}.mjs`);
if (!script || !existsSync(target)) fail(`usage: node tools/setup.mjs <up|test|bench> [arguments]`);

if (!dependenciesMatchLockfile()) {
  say('installing dependencies as locked (about a minute)');
  run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], 'npm ci failed; its message stands above');
}
const node = pinnedNode();
const buildFailed = 'the build failed; its message stands above';
run(node, [join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc'), '-b'], buildFailed);
run(node, [join(ROOT, 'tools', 'build-console.mjs')], buildFailed);
handOver(node);

/** True when every locked package is installed in the locked version (optional ones may be missing: other platforms). */
function dependenciesMatchLockfile() {
  const installed = readJson(join(ROOT, 'node_modules', '.package-lock.json'));
  const locked = readJson(join(ROOT, 'package-lock.json'));
  if (!installed || !locked) return false;
  for (const [path, entry] of Object.entries(locked.packages)) {
    if (path === '' || entry.link || !path.includes('node_modules/')) continue;
    const have = installed.packages[path];
    if (have ? have.version !== entry.version : !entry.optional && !entry.peer) return false;
  }
  return true;
}

/** The Node of the locked `node-linux-*` package, else this process's own when it is new enough. */
function pinnedNode() {
  const pinned = join(BIN, 'node');
  if (existsSync(pinned) && spawnSync(pinned, ['--version']).status === 0) return pinned;
  if (Number(process.versions.node.split('.')[0]) >= NODE_MAJOR) return process.execPath;
  return fail(
    `this platform needs Node ${NODE_MAJOR} or newer on PATH (here: ${process.version}); install it and repeat`,
  );
}

/** Runs the real script as a child; the IPC channel tells it when this process is gone, so nothing is left behind. */
function handOver(nodePath) {
  const child = spawn(nodePath, [target, ...args], {
    cwd: ROOT,
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, PATH: `${BIN}:${process.env.PATH ?? ''}` },
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  // A killed npm leaves us with another parent: nobody could stop the fleet any more, so it stops itself.
  const parent = process.ppid;
  setInterval(() => process.ppid !== parent && child.kill('SIGTERM'), 1_000).unref();
  child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
}

function run(command, commandArgs, whatFailed) {
  const result = spawnSync(command, commandArgs, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] });
  if (result.status !== 0) fail(whatFailed);
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

function say(message) {
  process.stdout.write(`toolfleet: ${message}\n`);
}

function fail(message) {
  process.stderr.write(`toolfleet: ${message}\n`);
  process.exit(1);
}
