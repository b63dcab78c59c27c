/**
 * The steps of `npm run check:deploy`. `npm test` runs the same steps (test/deploy-steps.spec.ts), except the long ones: those without
 * a program on every machine, the others where their programs are installed.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chartFaults } from './chart-check.mjs';
import { CHART_COMPONENTS, renderOverlay } from './chart.mjs';
import { generatedOf, stale } from './generate.mjs';
import { lint } from './lint.mjs';
import { literals } from './literals.mjs';
import { schemaFaults } from './schema.mjs';
import { exampleSettings } from './settings.mjs';
import { componentsOf, copyOverlay, folderOf, forgottenComponents, VARIANTS } from './variants.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const OUT = join(ROOT, 'build/deploy');
const TSC = ['node_modules/typescript/bin/tsc', '--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck'];
const TSC_TARGET = ['--module', 'nodenext', '--moduleResolution', 'nodenext', '--target', 'es2022'];

/**
 * @typedef {object} Step
 * @property {string} name
 * @property {string[]} needs programs that it runs
 * @property {boolean} long takes more than ten seconds
 * @property {() => string[] | Promise<string[]>} check returns faults, one a line; throws if the program fails
 */

/**
 * @param {string} [own] folder of a copy of the production overlay, checked in place of the variants
 * @returns {Step[]}
 */
export function deploySteps(own) {
  const steps = [];
  const add = (needs, name, check, { long = false } = {}) => steps.push({ name, needs, long, check });
  const overlays = own
    ? [{ name: basename(own), overlay: 'prod', folder: () => own }]
    : Object.entries(VARIANTS).map(([name, { overlay }]) => ({ name, overlay, folder: () => folderOf(name, OUT) }));
  const rendered = overlays.map(({ folder, ...rest }) => ({ ...rest, objects: once(() => renderOverlay(folder())) }));
  const backup = once(() => renderOverlay(backupOverlay()));

  add([], 'generated files are current', () => stale());
  if (own) {
    add([], 'its generated files are current', () => stale(ROOT, generatedOf(relative(ROOT, own))));
    add([], 'its settings are its own', () => exampleSettings(own).map((setting) => `${setting} is an example`));
  } else {
    add([], 'every component is part of a variant', () => forgottenComponents());
    add([], 'every component is a value of the chart', () => forgottenComponents(CHART_COMPONENTS));
  }
  for (const { name, overlay, objects } of rendered) {
    add(['kubectl'], `${name} renders objects that are valid against the schemas`, () => schemaFaults(objects()));
    add(['kubectl'], `${name} keeps our rules`, () =>
      lint(objects(), { overlay }).map(({ rule, fault }) => `${rule} ${fault}`),
    );
  }
  add(['kubectl'], 'backup jobs render and are valid against the schemas', () => schemaFaults(backup()));
  add(['kubectl'], 'backup jobs have no example of a setting', () =>
    backup()
      .filter(({ kind, metadata }) => kind === 'CronJob' && JSON.stringify(metadata.labels).includes('toolfleet.dev/'))
      .filter((job) => JSON.stringify(job).includes('set-by-settings'))
      .map(({ metadata }) => metadata.name),
  );
  add(['kubectl'], 'no object has an unknown field', () =>
    unknownFields([...rendered.map(({ name, objects }) => [name, objects()]), ['backup', backup()]]),
  );
  const chart = 'the Helm chart renders the same objects and refuses wrong values';
  if (!own) add(['kubectl', 'helm'], chart, () => chartFaults(OUT), { long: true });
  const promtool = (...args) => faultsOf('promtool', args);
  add(['promtool'], 'alerts parse', () => promtool('check', 'rules', 'deploy/alerts/toolfleet.rules.yml'));
  add(['promtool'], 'alerts pass their tests', () => promtool('test', 'rules', 'deploy/alerts/toolfleet.test.yml'), {
    long: true,
  });
  add(['promtool'], 'prometheus.yml parses', () =>
    promtool('check', 'config', '--syntax-only', 'deploy/prometheus.yml'),
  );
  add(['amtool'], 'alertmanager.yml parses', () =>
    faultsOf('amtool', ['check-config', 'deploy/alerts/alertmanager.yml']),
  );
  for (const [severity, receiver] of Object.entries({ page: 'pages', ticket: 'tickets' }))
    add(['amtool'], `severity ${severity} reaches ${receiver}`, () => routingFaults(severity, receiver));
  return steps;
}

/** Production with the backup jobs and the components that change them. */
function backupOverlay() {
  return copyOverlay('prod', join(OUT, 'backup'), [
    ...componentsOf('prod'),
    '../backup',
    'stores-ca',
    'redis-sentinel',
  ]);
}

/** Type-checks objects, given with a name for their file: one run of the compiler takes as long as a single rendering. */
function unknownFields(renderings) {
  mkdirSync(OUT, { recursive: true });
  const files = renderings.map(([name, objects]) => {
    const file = join(OUT, `${name}.ts`);
    writeFileSync(file, literals(objects));
    return file;
  });
  return faultsOf(process.execPath, [...TSC, ...TSC_TARGET, ...files]);
}

function routingFaults(severity, receiver) {
  const args = ['config', 'routes', 'test', '--config.file=deploy/alerts/alertmanager.yml', `severity=${severity}`];
  const got = run('amtool', args).stdout.trim();
  return got === receiver ? [] : [`it reaches ${got}`];
}

/** Lines of a program that failed. */
function faultsOf(command, args) {
  const { status, stdout, stderr } = run(command, args);
  return status === 0 ? [] : `${stdout}${stderr}`.trim().split('\n');
}

function run(command, args) {
  return spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 2 ** 26 });
}

/** The value that the first call makes: steps share a rendering. */
function once(make) {
  let value;
  return () => (value ??= make());
}
