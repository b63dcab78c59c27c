/** Inputs of the build: Debian 12's compilers and sources, with the versions that give the known digest. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './run.mjs';

const LLVM = '1:16.0.6-15~deb12u1';
const TOOLS = {
  'clang-16': LLVM,
  'lld-16': LLVM,
  'llvm-16': LLVM,
  'libclang-rt-16-dev-wasm32': LLVM,
  'wasi-libc': '0.0~git20220510.9886d3d-2',
  binaryen: '108-1',
};
/** Any version will do: their output does not depend on it. */
const HELPERS = ['python3.11', 'make', 'dpkg-dev'];
const SOURCES = { 'python3.11': '3.11.2-6+deb12u8', zlib: '1:1.2.13.dfsg-1', bzip2: '1.0.8-5' };

/** Ends with the command that installs the missing packages. */
export function checkTools({ anyVersion }) {
  const wanted = [...Object.entries(TOOLS), ...HELPERS.map((name) => [name])];
  const missing = wanted.filter(([name, version]) => {
    const { stdout } = spawnSync('dpkg-query', ['-W', '-f=${db:Status-Status} ${Version}', name], { encoding: 'utf8' });
    const [status, installed] = (stdout ?? '').split(' ');
    if (status === 'installed') console.log(`${name} ${installed}`);
    return status !== 'installed' || (version && version !== installed && !anyVersion);
  });
  if (missing.length === 0) return;
  const list = missing.map(([name, version]) => (version && !anyVersion ? `${name}=${version}` : name)).join(' ');
  throw new Error(`missing (of Debian 12): apt-get install --no-install-recommends ${list}`);
}

/** A folder with the unpacked sources, fetched with `apt-get source` (it checks their signatures). */
export function fetchSources(folder, { anyVersion }) {
  mkdirSync(folder, { recursive: true });
  for (const [name, version] of Object.entries(SOURCES)) {
    if (findSource(folder, name)) continue;
    const wanted = anyVersion ? name : `${name}=${version}`;
    try {
      run('apt-get', ['source', '--quiet', wanted], { cwd: folder });
    } catch (error) {
      const help =
        'if the package lists have no sources, add deb-src to the Types of your source list and run apt-get update';
      throw new Error(`${error.message}\n${help}`, { cause: error });
    }
  }
  return folder;
}

/** The unpacked source of a package in a folder, whatever its version; undefined when it is not there. */
export function findSource(folder, name) {
  const found = readdirSync(folder).find(
    (entry) => entry.startsWith(`${name}-`) && existsSync(join(folder, entry, 'debian/changelog')),
  );
  return found && join(folder, found);
}
