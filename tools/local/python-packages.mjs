/**
 * The Python of specs of Python programs: the one that `TEST_PYTHON` names, or the machine's with packages under `.toolfleet`.
 * Part of the set-up, because specs talk to loopback only.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { lastLines, runProgram } from './run-program.mjs';
import { step } from './steps.mjs';

/** Dependencies of the client in Python, of its build and of its tests, as pip takes them. */
const REQUIREMENTS = ['httpx>=0.27', 'pydantic>=2.7', 'anyio>=4', 'hatchling>=1.26', 'pytest>=8'];
/** Prints the version, and fails where it is too old. */
const VERSION = 'import sys; print(sys.version); sys.exit(sys.version_info < (3, 10))';
/** A machine without an index of packages is recognized soon, a slow one is given time. */
const PIP = ['--no-input', '--disable-pip-version-check', '--retries', '0', '--timeout', '10'];
const INSTALLED_WITHIN_MS = 120_000;

/**
 * Finds a Python 3.10 or newer and gets the packages, once for each list of them.
 * @param {string} root of the repository
 * @returns {Promise<Record<string, string>>} `TEST_PYTHON` and `TEST_PYTHON_PACKAGES`, a folder for its `PYTHONPATH`; or
 *   `TEST_PYTHON_MISSING`, the reason why specs that need them are skipped; nothing when `TEST_PYTHON` is set
 */
export async function pythonPackages(root) {
  if (process.env.TEST_PYTHON) return {};
  const program = 'python3';
  const { ok, stdout: version } = await runProgram(program, ['-c', VERSION], { timeoutMs: 30_000 });
  if (!ok) return { TEST_PYTHON_MISSING: 'needs python3 3.10 or newer on PATH' };
  const hash = createHash('sha256').update(`${version} ${REQUIREMENTS.join(' ')}`);
  const folder = join(root, '.toolfleet/python-packages', hash.digest('hex').slice(0, 12));
  const found = { TEST_PYTHON: program, TEST_PYTHON_PACKAGES: folder };
  if (existsSync(folder)) return found;
  await mkdir(join(root, '.toolfleet/python-packages'), { recursive: true });
  const started = await mkdtemp(`${folder}-`);
  const pip = ['-m', 'pip', 'install', '--quiet', ...PIP, '--target', started, ...REQUIREMENTS];
  const installed = await step('getting the packages of the Python client', () =>
    runProgram(program, pip, { timeoutMs: INSTALLED_WITHIN_MS }),
  );
  if (installed.ok) {
    await rename(started, folder);
    return found;
  }
  await rm(started, { recursive: true, force: true });
  return { TEST_PYTHON_MISSING: `needs packages that pip cannot install here: ${lastLines(installed.output, 1)}` };
}
