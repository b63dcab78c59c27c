#!/usr/bin/env node
// Runs on any Node >= 20; everything behind this line is built code. In a fresh clone it is built first, once.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const entry = new URL('../dist/main.js', import.meta.url);
if (!existsSync(entry)) {
  const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc');
  const project = fileURLToPath(new URL('..', import.meta.url));
  const built = spawnSync(process.execPath, [compiler, '-b', project], { stdio: ['ignore', 2, 2] });
  if (built.status !== 0) {
    process.stderr.write('fleetctl could not be built; the messages stand above\n');
    process.exit(1);
  }
}
const { main } = await import(entry.href);
process.exitCode = await main(process.argv.slice(2));
