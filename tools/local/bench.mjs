/**
 * `npm run bench [-- name …]`: runs the load scripts and writes test/load/results/<date>.json with machine and versions.
 * Fails when a p99 is more than 15 % above that of the newest saved run *as a ratio to the yardstick of the same run*:
 * absolute times of shared machines say nothing.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { calculatorBench } from '../../test/load/calculator.bench.mjs';
import { computeBench } from '../../test/load/compute.bench.mjs';
import { fetchPageBench } from '../../test/load/fetch-page.bench.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const BENCHES = {
  calculator: () => calculatorBench(ROOT),
  compute: () => computeBench(ROOT),
  fetch_page: () => fetchPageBench(ROOT),
};
const wanted = process.argv.slice(2);
const results = [];
for (const [name, run] of Object.entries(BENCHES)) {
  if (wanted.length === 0 || wanted.includes(name)) results.push(await run());
}
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const report = {
  at: new Date().toISOString(),
  version,
  node: process.version,
  machine: {
    cpu: cpus()[0]?.model,
    cores: cpus().length,
    memory_gib: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform}-${process.arch}`,
  },
  results,
};
const dir = join(ROOT, 'test/load/results');
mkdirSync(dir, { recursive: true });
// A run of some benches leaves the file of a whole run as it is.
const file = join(dir, `${[...wanted, report.at.slice(0, 10)].join('-')}.json`);
writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
console.log(JSON.stringify(results, null, 2));
console.log(`written to ${file}`);
