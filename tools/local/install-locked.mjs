/** Packages of a folder outside the workspaces, such as other people's programs that a measurement runs. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { lastLines, runProgram } from './run-program.mjs';
import { step } from './steps.mjs';

/**
 * Installs the packages of `folder` as locked, unless they are there. Scripts of packages do not run.
 * @param {string} title shown meanwhile
 */
export async function installLocked(folder, title) {
  const [locked, installed] = [join(folder, 'package-lock.json'), join(folder, 'node_modules/.package-lock.json')];
  if (existsSync(installed) && sameVersions(readJson(locked), readJson(installed))) return;
  await step(title, async () => {
    const { ok, output } = await runProgram('npm', ['ci', '--ignore-scripts', '--loglevel=error'], { cwd: folder });
    if (!ok) throw new Error(`${lastLines(output, 20)}\nnpm ci in ${folder} failed; it needs the npm registry`);
  });
}

function readJson(path) {
  return JSON.parse(readFileSync(path, 'utf8'));
}

function sameVersions(locked, installed) {
  return Object.entries(locked.packages).every(
    ([path, { version, optional, peer }]) =>
      path === '' || optional || peer || installed.packages[path]?.version === version,
  );
}
