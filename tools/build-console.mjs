/**
 * `node tools/build-console.mjs`: the web console as static files in `apps/console/dist/web`, served by the gateway at
 * `/console`. Does nothing when sources and packages are the last build's.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const APP = join(ROOT, 'apps', 'console');
const STAMP = join(APP, 'dist', 'web.stamp');
/** Everything the files are made of; packages count by their locked versions. */
const INPUTS = ['index.html', 'vite.config.ts', 'package.json', 'public', 'src', '../../libs/client/src'];
const PACKAGES = ['vite', 'react', 'react-dom'];

const now = fingerprint();
if (!existsSync(STAMP) || readFileSync(STAMP, 'utf8') !== now || !existsSync(join(APP, 'dist/web/index.html'))) {
  rmSync(STAMP, { force: true });
  const { build } = await import('vite');
  await build({ root: APP, configFile: join(APP, 'vite.config.ts'), logLevel: 'warn' });
  mkdirSync(dirname(STAMP), { recursive: true });
  writeFileSync(STAMP, now);
}

function fingerprint() {
  const hash = createHash('sha256');
  for (const input of INPUTS)
    for (const file of filesOf(join(APP, input))) hash.update(relative(ROOT, file)).update(readFileSync(file));
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
  for (const name of PACKAGES) hash.update(`${name}@${packages[`node_modules/${name}`]?.version}`);
  return hash.digest('hex');
}

function* filesOf(path) {
  const entries = readEntries(path);
  if (!entries) yield path;
  else for (const name of entries) yield* filesOf(join(path, name));
}

/** Sorted names of a folder; undefined for a file. Specs are not part of the console. */
function readEntries(path) {
  try {
    return readdirSync(path)
      .filter((name) => !/\.spec\.tsx?$/.test(name))
      .toSorted();
  } catch (error) {
    if (error.code === 'ENOTDIR') return undefined;
    throw error;
  }
}
