/** CPython's test suite as Debian and Ubuntu package it, unpacked into a cache of the user. Needs no root. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'toolfleet', 'cpython-tests');
const run = (command, args, cwd) => spawnSync(command, args, { cwd, encoding: 'utf8' });

/** Minor versions (`3.12`) with a test suite in the package lists of this system; none without apt. */
export function offeredVersions() {
  const { stdout } = run('apt-cache', ['search', '--names-only', '^libpython3\\.[0-9]+-testsuite$']);
  return [...(stdout ?? '').matchAll(/^libpython(3\.\d+)-testsuite /gm)].map(([, version]) => version);
}

/** The folder `test` of a version, fetched when it is not in the cache yet; undefined when it is not offered. */
export function fetchSuite(version) {
  const unpacked = join(cache, version);
  const tests = join(unpacked, `usr/lib/python${version}/test`);
  if (existsSync(tests)) return tests;
  if (!offeredVersions().includes(version)) return undefined;
  // Written aside, so that a fetch that was cut short is not taken for a whole one.
  const [fresh, packages] = [`${unpacked}.${process.pid}`, join(`${unpacked}.${process.pid}`, 'packages')];
  mkdirSync(packages, { recursive: true });
  try {
    // `test.support` is in the package of the library.
    const fetched = run(
      'apt-get',
      ['download', `libpython${version}-testsuite`, `libpython${version}-stdlib`],
      packages,
    );
    if (fetched.status !== 0) throw new Error(`apt-get download: ${fetched.stderr.trim().split('\n').at(-1)}`);
    for (const file of readdirSync(packages)) {
      const opened = run('dpkg-deb', ['-x', join(packages, file), fresh]);
      if (opened.status !== 0) throw new Error(`dpkg-deb: ${opened.stderr}`);
    }
    rmSync(packages, { recursive: true });
    if (!existsSync(unpacked)) renameSync(fresh, unpacked);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return tests;
}
