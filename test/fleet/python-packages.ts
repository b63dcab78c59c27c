/** A Python with packages for specs of Python programs: the one of `TEST_PYTHON`, or the machine's with packages installed into `build`. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
const IS_NEW_ENOUGH = 'import sys; sys.exit(sys.version_info < (3, 10))';
/** A machine without an index of packages is recognized soon, a slow one is given time. */
const PIP = ['--no-input', '--disable-pip-version-check', '--retries', '0', '--timeout', '10'];
const INSTALLED_WITHIN_MS = 120_000;

/** A Python program, and a folder of packages for its `PYTHONPATH` unless it has them itself. */
export interface PythonPackages {
  program: string;
  folder?: string;
}

/**
 * A Python 3.10 or newer that has packages. They are installed once for each list of them.
 * @param requirements as pip takes them
 * @returns a reason, if this machine has no such Python or pip cannot get the packages
 * @throws if `TEST_PYTHON` is set, which promises a Python with packages, and lacks them
 */
export async function pythonWith(requirements: readonly string[]): Promise<PythonPackages | { missing: string }> {
  const named = process.env['TEST_PYTHON'];
  const program = named ?? 'python3';
  const modules = requirements.map((one) => /^[\w-]+/.exec(one)![0]);
  if (named !== undefined) {
    await run(program, ['-c', IS_NEW_ENOUGH]);
    await run(program, ['-c', `import ${modules.join(', ')}`]);
    return { program };
  }
  try {
    await run(program, ['-c', IS_NEW_ENOUGH], { timeout: 30_000 });
  } catch {
    return { missing: 'needs python3 3.10 or newer on PATH' };
  }
  const { stdout: version } = await run(program, ['-VV']);
  const hash = createHash('sha256')
    .update(`${version} ${requirements.join(' ')}`)
    .digest('hex')
    .slice(0, 12);
  const folder = join(ROOT, 'build/python-packages', hash);
  if (existsSync(folder)) return { program, folder };
  await mkdir(join(ROOT, 'build/python-packages'), { recursive: true });
  const started = await mkdtemp(`${folder}-`);
  try {
    await run(program, ['-m', 'pip', 'install', '--quiet', ...PIP, '--target', started, ...requirements], {
      timeout: INSTALLED_WITHIN_MS,
      killSignal: 'SIGKILL',
    });
    await rename(started, folder);
    return { program, folder };
  } catch (error) {
    await rm(started, { recursive: true, force: true });
    const said = String((error as { stderr?: string }).stderr ?? '')
      .trim()
      .split('\n')
      .at(-1);
    return { missing: `needs packages that pip cannot install here: ${said || (error as Error).message}` };
  }
}
