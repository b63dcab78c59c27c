/**
 * `npm run check:behaviours [-- group …]`: looks at what users rely on, one probe per promise, and prints a table. It starts a fleet for
 * that, or uses the one at `FLEET_URL` with the administrator's key `FLEET_KEY` (and `FLEET_NATS_URL`). The last line is
 * `N passed, N failed`.
 */
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { connectRunningFleet, startFleetUnderTest } from '../../test/behaviours/fleet.mjs';
import { runProbes } from '../../test/behaviours/run-probes.mjs';
import { onInterrupt } from './child-process.mjs';
import { complain, say, step } from './steps.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const GROUPS = join(ROOT, 'test/behaviours/groups');
const print = (line) => process.stdout.write(`${line}\n`);

let stop = async () => {};
let ending;
const end = (code) => (ending ??= stop().finally(() => process.exit(code)));
onInterrupt(() => end(1));

try {
  const groups = await readGroups(process.argv.slice(2));
  const started = await openFleet();
  stop = started.stop;
  const { passed, failed, skipped } = await runProbes(groups, started.probed, print);
  if (skipped > 0) print(`\n${skipped} skipped`);
  await stop();
  print(`\n${passed} passed, ${failed} failed`);
  process.exit(failed === 0 && passed > 0 ? 0 : 1);
} catch (error) {
  complain(error.message);
  await end(1);
}

/** The groups with one of the words in their name; all without words. */
async function readGroups(words) {
  const files = readdirSync(GROUPS).filter((name) => name.endsWith('.mjs'));
  const all = await Promise.all(
    files.map(async (file) => (await import(pathToFileURL(join(GROUPS, file)).href)).default),
  );
  const selected = all.filter(({ group }) => words.length === 0 || words.some((word) => group.includes(word)));
  if (selected.length === 0) throw new Error(`no such group; known: ${all.map(({ group }) => group).join(', ')}`);
  return selected;
}

async function openFleet() {
  const { FLEET_URL: url, FLEET_KEY: key } = process.env;
  if (!url !== !key) throw new Error('set both FLEET_URL and FLEET_KEY, or neither');
  if (url) return connectRunningFleet(ROOT, process.env);
  return startFleetUnderTest(ROOT, { say, step, onStop: (stopAll) => (stop = stopAll) });
}
