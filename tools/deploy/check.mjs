/**
 * `npm run check:deploy`: everything about deploy/ that can be checked without a cluster. Steps with a program that this machine
 * lacks are skipped and named; a skip is never a pass. `-- <folder>` checks your own copy of the production overlay.
 */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { unpinnedImages } from './pin.mjs';
import { program } from './programs.mjs';
import { exampleSettings, PRODUCTION } from './settings.mjs';
import { deploySteps } from './steps.mjs';

const FAULTS_SHOWN = 30;
const DEBIAN_PACKAGES = { promtool: 'prometheus', amtool: 'prometheus-alertmanager' };
const totals = { passed: 0, failed: 0, skipped: 0 };

const own = process.argv[2] && resolve(process.argv[2]);
for (const { name, needs, check } of deploySteps(own)) {
  const missing = needs.find((each) => !program(each));
  if (missing === undefined) await run(name, check);
  else skip(`${name}: ${missing} is not installed${hint(missing)}`);
}
for (const image of unpinnedImages(readFileSync(join(own ?? PRODUCTION, 'kustomization.yaml'), 'utf8')))
  skip(`${image} is not pinned: run npm run deploy:pin where its registry can be reached`);
// A step of an overlay of the operator's own.
if (!own)
  for (const setting of exampleSettings()) skip(`${setting} of settings.yaml is an example: set it in your overlay`);

console.log(`${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`);
process.exit(totals.failed === 0 ? 0 : 1);

async function run(name, check) {
  const faults = await faultsOf(check);
  totals[faults.length === 0 ? 'passed' : 'failed'] += 1;
  console.log(`${faults.length === 0 ? 'ok     ' : 'FAILED '} ${name}`);
  for (const fault of faults.slice(0, FAULTS_SHOWN)) console.log(`        ${fault}`);
}

async function faultsOf(check) {
  try {
    return await check();
  } catch (error) {
    return error.message.trim().split('\n');
  }
}

function skip(text) {
  totals.skipped += 1;
  console.log(`SKIPPED ${text}`);
}

function hint(name) {
  return name in DEBIAN_PACKAGES ? ` (Debian package ${DEBIAN_PACKAGES[name]})` : '';
}
