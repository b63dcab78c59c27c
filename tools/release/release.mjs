/**
 * `npm run release -- <version> [--dry-run]`: sets the version of every package, dates the section of CHANGELOG.md, packs
 * what is published, commits and tags. With `--dry-run` it packs and prints the rest. It pushes and publishes nothing: the
 * commands for that are its last lines.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { makePackages } from './packages.mjs';
import { planRelease } from './plan.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const git = (...args) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64e6 });
const lines = (text) => text.split('\n').filter(Boolean);

const args = process.argv.slice(2);
const dryRun = args.includes('--dry-run');
const version = args.find((arg) => !arg.startsWith('-'));
try {
  if (version === undefined) throw new Error('usage: npm run release -- <version> [--dry-run]');
  await release();
} catch (error) {
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 1;
}

async function release() {
  if (!dryRun && git('status', '--porcelain') !== '')
    throw new Error('there are uncommitted changes; commit them first');
  const { version: current } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const tracked = lines(git('grep', '-lFI', current)).concat('CHANGELOG.md');
  const files = new Map(tracked.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]));
  const today = new Date().toISOString().slice(0, 10);
  const plan = planRelease({ version, current, today, tags: lines(git('tag', '--list')), files });

  console.log(`version ${current} -> ${version}, tag ${plan.tag}${dryRun ? ' (dry run: nothing is changed)' : ''}`);
  for (const path of [...plan.edits.keys()].toSorted()) console.log(`  edit ${path}`);
  console.log(`\n${plan.notes}\n`);
  if (!dryRun) {
    for (const [path, text] of plan.edits) writeFileSync(join(ROOT, path), text);
    execFileSync('npm', ['run', 'build', '--silent'], { cwd: ROOT, stdio: 'inherit' });
  }
  for (const made of await makePackages({ version })) {
    console.log(`packed ${made.name} ${made.version}: ${relative(ROOT, made.archive)}`);
    for (const file of made.files) console.log(`  ${file}`);
  }
  if (dryRun) return;
  git('commit', '-am', `Release ${version}`, '--allow-empty');
  git('tag', '--annotate', plan.tag, '--message', `toolfleet ${version}`, '--message', plan.notes);
  console.log(`\nNext: git push --follow-tags; npm publish build/packages/*-${version}.tgz --access public`);
}
