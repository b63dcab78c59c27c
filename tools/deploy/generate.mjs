/**
 * `npm run deploy:generate [-- <overlay>]`: writes what is made from something else under deploy/: Grafana's dashboards, the alerts as
 * a PrometheusRule, copies of broker files that kustomize reads only inside an overlay, patches by `classes` of settings.yaml; with an
 * overlay, its patches alone. `--check` (part of `npm run check:deploy` and of the tests) fails when a file is not what would be written.
 */
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import yaml from 'js-yaml';
import { classComponent, classNames } from './classes.mjs';
import { DASHBOARDS, renderDashboard } from './dashboards.mjs';
import { readSettings, settingsSchema } from './settings.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const OVERLAYS = ['deploy/k8s/overlays/dev', 'deploy/k8s/overlays/prod'];
const DEV_FILES = 'deploy/k8s/overlays/dev/files';
const COPIES = {
  'deploy/nats.conf': `${DEV_FILES}/nats.conf`,
  'deploy/compose/nats.sh': `${DEV_FILES}/nats.sh`,
  'deploy/redis.acl.template': `${DEV_FILES}/redis.acl.template`,
  'deploy/compose/redis.sh': `${DEV_FILES}/redis.sh`,
};

/** Patches of an overlay by its settings. @returns {Record<string, string>} text by path from the repository root */
export function generatedOf(overlay, root = ROOT) {
  const component = classComponent(readSettings(join(root, overlay)).classes, classNames(settingsSchema()));
  const comment = '# Made from classes of settings.yaml by `npm run deploy:generate`; edit there.\n';
  return { [`${overlay}/classes/kustomization.yaml`]: `${comment}${yaml.dump(component, { lineWidth: -1 })}` };
}

/** @returns {Record<string, string>} text by path from the repository root */
export function generated(root = ROOT) {
  const read = (path) => readFileSync(join(root, path), 'utf8');
  const files = {};
  for (const [name, dashboard] of Object.entries(DASHBOARDS)) {
    files[`deploy/grafana/${name}.json`] = `${JSON.stringify(renderDashboard(name, dashboard), null, 2)}\n`;
  }
  const groups = readdirSync(join(root, 'deploy/alerts'))
    .filter((name) => name.endsWith('.rules.yml'))
    .flatMap((name) => yaml.load(read(`deploy/alerts/${name}`)).groups);
  const rule = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'toolfleet' },
    spec: { groups },
  };
  files['deploy/alerts/prometheus-rule.yaml'] =
    `# Made from *.rules.yml by \`npm run deploy:generate\`; edit there.\n${yaml.dump(rule, { lineWidth: -1, noRefs: true })}`;
  for (const [from, to] of Object.entries(COPIES)) files[to] = read(from);
  for (const overlay of OVERLAYS) Object.assign(files, generatedOf(overlay, root));
  return files;
}

/** Files that differ from what would be written. */
export function stale(root = ROOT, files = generated(root)) {
  return Object.entries(files)
    .filter(([path, text]) => readOrNothing(join(root, path)) !== text)
    .map(([path]) => path);
}

function readOrNothing(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const overlay = process.argv.slice(2).find((word) => !word.startsWith('--'));
  const made = overlay === undefined ? generated() : generatedOf(relative(ROOT, resolve(overlay)));
  if (process.argv.includes('--check')) {
    const files = stale(ROOT, made);
    for (const path of files) console.error(`${path} is stale; run "npm run deploy:generate"`);
    process.exit(files.length === 0 ? 0 : 1);
  }
  for (const [path, text] of Object.entries(made)) {
    mkdirSync(dirname(join(ROOT, path)), { recursive: true });
    writeFileSync(join(ROOT, path), text);
  }
}
