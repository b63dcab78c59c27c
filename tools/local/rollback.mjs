/**
 * `npm run test:rollback [-- <ref>]`: a release, the current build and the release again on one set of data. The release is the given
 * commit, the last tag before this one, or the commit before this one. It is built in a working tree of its own below `.toolfleet`.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { say } from './steps.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const git = (...args) =>
  execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();

/** The tag of the last release; its own commit has none before it while it is being released. */
function lastRelease() {
  try {
    return git('describe', '--tags', '--abbrev=0', '--match', 'v*', 'HEAD^');
  } catch {
    return 'HEAD^';
  }
}

const ref = process.argv[2] ?? lastRelease();
const commit = git('rev-parse', '--verify', `${ref}^{commit}`);
const build = join(ROOT, '.toolfleet/releases', commit.slice(0, 12));
const inBuild = (program, ...args) =>
  execFileSync(program, args, { cwd: build, stdio: ['ignore', 'ignore', 'inherit'] });
if (!existsSync(join(build, 'apps/gateway/dist/main.js'))) {
  say(`building ${ref} (${commit.slice(0, 12)}) in ${build}`);
  git('worktree', 'prune');
  if (!existsSync(build)) git('worktree', 'add', '--detach', build, commit);
  inBuild('npm', 'ci', '--prefer-offline', '--no-audit', '--no-fund');
  inBuild('npx', 'tsc', '-b');
}
process.env.RELEASE_BUILD = build;
process.env.TEST_PROJECTS = 'cluster';
process.argv.splice(2, process.argv.length, 'test/cluster/rollback.spec.ts');
await import('./test.mjs');
