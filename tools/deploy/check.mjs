/**
 * `npm run check:deploy`: everything about deploy/ that can be checked without a cluster. Steps whose program this machine
 * lacks are skipped and named at the end; a skip is never a pass. `-- <folder>` checks your own copy of the production overlay.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chartFaults } from './chart-check.mjs';
import { generatedOf, stale } from './generate.mjs';
import { lint, objectsOf } from './lint.mjs';
import { literals } from './literals.mjs';
import { unpinnedImages } from './pin.mjs';
import { program } from './programs.mjs';
import { schemaFaults } from './schema.mjs';
import { exampleSettings, PRODUCTION } from './settings.mjs';
import { componentsOf, copyOverlay, folderOf, forgottenComponents, VARIANTS } from './variants.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const OUT = join(ROOT, 'build/deploy');
const TSC_FLAGS =
  '--ignoreConfig --noEmit --strict --skipLibCheck --module nodenext --moduleResolution nodenext --target es2022';
const totals = { passed: 0, failed: 0, skipped: 0 };
mkdirSync(OUT, { recursive: true });

const own = process.argv[2] && resolve(process.argv[2]);
await step('generated files are current', () => [
  ...stale(),
  ...(own ? stale(ROOT, generatedOf(relative(ROOT, own))) : []),
]);
const kubectl = program('kubectl');
if (!kubectl) skip('overlays', 'kubectl');
else if (own) await checkRendering(basename(own), own, 'prod');
else {
  await step('every component is part of something checked', () => forgottenComponents());
  for (const [name, { overlay }] of Object.entries(VARIANTS)) await checkRendering(name, folderOf(name, OUT), overlay);
}
if (kubectl && !own) {
  if (program('helm'))
    await step('the Helm chart renders the same objects and refuses wrong values', () => chartFaults(OUT));
  else skip('the Helm chart', 'helm');
}
for (const image of unpinnedImages(readFileSync(join(own ?? PRODUCTION, 'kustomization.yaml'), 'utf8')))
  remind(`${image} is not pinned: run npm run deploy:pin where its registry can be reached`);
for (const setting of exampleSettings(own)) remind(`${setting} of settings.yaml is an example: set it in your overlay`);
if (has('promtool')) {
  await step('alerts parse', () => faultsOf('promtool', 'check rules deploy/alerts/toolfleet.rules.yml'));
  await step('alerts pass their tests', () => faultsOf('promtool', 'test rules deploy/alerts/toolfleet.test.yml'));
  await step('prometheus.yml parses', () => faultsOf('promtool', 'check config --syntax-only deploy/prometheus.yml'));
} else skip('alerts', 'promtool (Debian package prometheus)');
if (kubectl) {
  const components = [...componentsOf('prod'), '../backup', 'stores-ca', 'redis-sentinel'];
  const folder = copyOverlay('prod', join(OUT, 'backup'), components);
  const rendered = run(kubectl, ['kustomize', '--load-restrictor=LoadRestrictionsNone', folder]);
  await step('backup jobs render', () => (rendered.status === 0 ? [] : [rendered.stderr]));
  const objects = objectsOf(rendered.stdout);
  await step('backup jobs are valid against the schemas', () => schemaFaults(objects));
  await step('backup jobs have no example of a setting', () =>
    objects
      .filter(({ kind, metadata }) => kind === 'CronJob' && JSON.stringify(metadata.labels).includes('toolfleet.dev/'))
      .filter((job) => JSON.stringify(job).includes('set-by-settings'))
      .map(({ metadata }) => metadata.name),
  );
}
if (has('amtool')) {
  await step('alertmanager.yml parses', () => faultsOf('amtool', 'check-config deploy/alerts/alertmanager.yml'));
  for (const [severity, receiver] of Object.entries({ page: 'pages', ticket: 'tickets' })) {
    await step(`severity ${severity} reaches ${receiver}`, () => routesTo(severity, receiver));
  }
} else skip('routing of alerts', 'amtool (Debian package prometheus-alertmanager)');

console.log(`${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`);
process.exit(totals.failed === 0 ? 0 : 1);

/** The four steps: render, schemas, unknown fields, our rules. */
async function checkRendering(variant, folder, overlay) {
  // Variants live outside deploy/ and take files from it.
  const rendered = run(kubectl, ['kustomize', '--load-restrictor=LoadRestrictionsNone', folder]);
  await step(`${variant} renders`, () => (rendered.status === 0 ? [] : [rendered.stderr]));
  if (rendered.status !== 0) return;
  const objects = objectsOf(rendered.stdout);
  writeFileSync(join(OUT, `${variant}.yaml`), rendered.stdout);
  writeFileSync(join(OUT, `${variant}.ts`), literals(objects));
  await step(`${variant}: ${objects.length} objects are valid against the schemas`, () => schemaFaults(objects));
  await step(`${variant} has no unknown field`, () =>
    faultsOf(process.execPath, `node_modules/typescript/bin/tsc ${TSC_FLAGS} build/deploy/${variant}.ts`),
  );
  await step(`${variant} keeps our rules`, () =>
    lint(objects, { overlay }).map(({ rule, fault }) => `${rule} ${fault}`),
  );
}

function routesTo(severity, receiver) {
  const args = ['config', 'routes', 'test', '--config.file=deploy/alerts/alertmanager.yml', `severity=${severity}`];
  const got = run('amtool', args).stdout.trim();
  return got === receiver ? [] : [`it reaches ${got}`];
}

async function step(name, check) {
  const faults = await check();
  totals[faults.length === 0 ? 'passed' : 'failed'] += 1;
  console.log(`${faults.length === 0 ? 'ok     ' : 'FAILED '} ${name}`);
  for (const fault of faults.slice(0, 30)) console.log(`        ${fault}`);
}

function skip(what, missing) {
  remind(`${what}: ${missing} is not installed`);
}

function remind(text) {
  totals.skipped += 1;
  console.log(`SKIPPED ${text}`);
}

function run(command, args) {
  return spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 2 ** 26 });
}

function has(command) {
  return run('sh', ['-c', `command -v ${command}`]).status === 0;
}

/** Lines of a program that failed. */
function faultsOf(command, args) {
  const { status, stdout, stderr } = run(command, args.split(' '));
  return status === 0 ? [] : `${stdout}${stderr}`.trim().split('\n');
}
