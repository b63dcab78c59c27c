#!/usr/bin/env node
// Runs on any Node >= 20: the bundle that `npm run build` makes, or what tsc wrote if that is newer. In a fresh clone it is built first, once.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundle, isFresh } from './bundle.mjs';

const entry = new URL('../dist/main.js', import.meta.url);
if (!existsSync(entry)) {
  const compiler = join(
    dirname(module.createRequire(import.meta.url).resolve('typescript/package.json')),
    'bin',
    'tsc',
  );
  const project = fileURLToPath(new URL('..', import.meta.url));
  const built = spawnSync(process.execPath, [compiler, '-b', project], { stdio: ['ignore', 2, 2] });
  if (built.status !== 0) {
    process.stderr.write('fleetctl could not be built; the messages stand above\n');
    process.exit(1);
  }
}
module.enableCompileCache?.(); // Node 22 and later
const { main } = await import(isFresh() ? new URL('index.js', bundle).href : entry.href);
process.exitCode = await main(process.argv.slice(2));
