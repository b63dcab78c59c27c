/**
 * `npm run bench [-- name …]`: runs the load scripts and writes test/load/results/<date>.json with machine and versions.
 * Fails when a p99 is more than 15 % above the newest saved run's *as a ratio to the yardstick of the same run*:
 * absolute times of shared machines say nothing.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { slower } from '../../test/load/against-last-run.mjs';
import { attacksBench } from '../../test/load/attacks.bench.mjs';
import { calculatorBench } from '../../test/load/calculator.bench.mjs';
import { countsBench } from '../../test/load/counts.bench.mjs';
import { computeBench } from '../../test/load/compute.bench.mjs';
import { fetchPageBench } from '../../test/load/fetch-page.bench.mjs';
import { growthBench } from '../../test/load/growth.bench.mjs';
import { firstCallsBench } from '../../test/load/first-calls.bench.mjs';
import { leasesBench } from '../../test/load/leases.bench.mjs';
import { mcpBench } from '../../test/load/mcp.bench.mjs';
import { pathsBench } from '../../test/load/paths.bench.mjs';
import { programsBench } from '../../test/load/programs.bench.mjs';
import { startBench } from '../../test/load/start.bench.mjs';
import { telemetryBench } from '../../test/load/telemetry.bench.mjs';
import { waitsBench } from '../../test/load/waits.bench.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const BENCHES = {
  calculator: () => calculatorBench(ROOT),
  paths: () => pathsBench(ROOT),
  counts: () => countsBench(ROOT),
  leases: () => leasesBench(ROOT),
  mcp: () => mcpBench(ROOT),
  programs: () => programsBench(ROOT),
  waits: () => waitsBench(ROOT),
  'first-calls': () => firstCallsBench(ROOT),
  growth: () => growthBench(ROOT),
  compute: () => computeBench(ROOT),
  fetch_page: () => fetchPageBench(ROOT),
  telemetry: () => telemetryBench(ROOT),
  start: () => startBench(),
  openapi: () => printed('openapi', 'test/load/openapi.bench.mjs'),
  attacks: () => attacksBench(ROOT),
  search: () => printed('search', 'test/load/search.bench.mjs'),
  engine: () => printed('engine', 'test/load/engine.bench.mjs'),
  openapi_call: () => printed('openapi_call', 'test/load/openapi-call.bench.mjs'),
};
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !Object.hasOwn(BENCHES, name));
if (unknown.length > 0) {
  console.error(`There is no benchmark ${unknown.join(', ')}; there are ${Object.keys(BENCHES).join(', ')}`);
  process.exit(2);
}
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
const regressions = slower(results, lastSaved(dir));
// A run of some benches leaves the file of a whole run unchanged.
const file = join(dir, `${[...wanted, report.at.slice(0, 10)].join('-')}.json`);
writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
console.log(JSON.stringify(results, null, 2));
console.log(`written to ${file}`);
for (const line of regressions) console.error(line);
process.exit(regressions.length > 0 ? 1 : 0);

/** Results of the newest whole run. */
function lastSaved(folder) {
  const newest = readdirSync(folder)
    .filter((name) => /^\d{4}-\d{2}-\d{2}\.json$/.test(name))
    .toSorted()
    .at(-1);
  return newest ? JSON.parse(readFileSync(join(folder, newest), 'utf8')).results : [];
}

/** A bench that is a separate program: its output, line by line, and whether its goals were met (docs/openapi.md). */
function printed(name, path) {
  const { status, stdout } = spawnSync(process.execPath, [join(ROOT, path)], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => (line.startsWith('{') ? JSON.parse(line) : line));
  return { name, meets_its_goals: status === 0, lines };
}
