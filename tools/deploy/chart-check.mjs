/**
 * Whether `helm template` makes the objects of the overlays from the chart with the same settings, compared object by object, and
 * refuses wrong values with a message. Needs no cluster.
 */
import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { productionValues, renderOverlay, valuesOf, writeChart } from './chart.mjs';
import { classComponent, classNames } from './classes.mjs';
import { objectsOf } from './lint.mjs';
import { program } from './programs.mjs';
import { PRODUCTION, readSettings, settingsIn, settingsObject, settingsSchema } from './settings.mjs';
import { componentsOf, copyOverlay, overlayList, VARIANTS } from './variants.mjs';

const DIGEST = `sha256:${'1'.repeat(64)}`;
/** Classes that no autoscaler sizes. */
const FIXED = ['budget', 'identity', 'records', 'registry'];

/** Values that must be refused, with the words that the message has to name. */
const REFUSED = [
  [(values) => (values.hosts = 'a'), 'hosts'],
  [(values) => (values.features.gvisors = true), 'gvisors'],
  [(values) => (values.classes.gatway = {}), 'gatway'],
  [(values) => (values.classes.gateway = { resorces: {} }), 'resorces'],
  [(values) => (values.classes.gateway = { env: { GATEWAY_PROT: '1' } }), 'GATEWAY_PROT'],
  [(values) => (values.classes.gateway = { toolSecrets: [] }), 'toolSecrets'],
  [(values) => (values.classes.gateway = { replicas: 3 }), 'classes.gateway.replicas: an autoscaler sizes this class'],
  [(values) => (values.classes.budget = { replicas: { min: 1, max: 2 } }), 'classes.budget.replicas: no autoscaler'],
];

/** Renders a chart. @returns {object[]} Kubernetes objects @throws Error with what helm printed */
function renderChart(chart, values, release, namespace) {
  const file = `${chart}-values.json`;
  writeFileSync(file, JSON.stringify(values));
  const args = ['template', release, chart, '--namespace', namespace, '--values', file];
  const { status, stdout, stderr } = spawnSync(program('helm'), args, { encoding: 'utf8', maxBuffer: 2 ** 26 });
  if (status !== 0) throw new Error(stderr);
  return objectsOf(stdout);
}

/** Every setting with another value of its type, and every field of every class, so that each is seen to arrive in both. */
function otherSettings() {
  const spec = {};
  for (const { path, value, schema: of } of settingsIn(readSettings(PRODUCTION))) {
    const parent = path.slice(0, -1).reduce((part, key) => (part[key] ??= {}), spec);
    const isMap = typeof value === 'object' && !Array.isArray(value);
    if (of.enum) parent[path.at(-1)] = of.enum.at(-1);
    else if (isMap) parent[path.at(-1)] = { ...value, team: 'tools' };
    else if (Array.isArray(value)) parent[path.at(-1)] = [...value, ...value];
    else parent[path.at(-1)] = path.at(-1) === 'traceRatio' ? '0.5' : `${value}x`;
  }
  const schema = settingsSchema();
  const { default: shared, ...classes } = schema.properties.classes.properties;
  spec.classes = Object.fromEntries(
    Object.entries(classes).map(([name, { $ref }]) => {
      const fields = Object.keys(schema.definitions[$ref.split('/').at(-1)].properties);
      return [name, Object.fromEntries(fields.flatMap((field) => classValue(name, field)))];
    }),
  );
  spec.classes.default = Object.fromEntries(
    Object.keys(shared.properties).flatMap((field) => classValue('all', field)),
  );
  return spec;
}

/** A field of a class with a value; nothing where `default`'s is to apply. @throws Error for a field without one here */
function classValue(name, field) {
  const given = {
    // One that the base leaves out, one that it sets, and one that it takes from a ConfigMap.
    env: {
      LOG_LEVEL: 'warn',
      DRAIN_TIMEOUT_MS: '1',
      ...(name !== 'python-sandbox' && { NATS_URL: 'tls://other:4222' }),
    },
    resources: { requests: { cpu: '3' }, limits: { memory: '3Gi' } },
    nodeSelector: { pool: name },
    tolerations: [{ key: 'pool', operator: 'Equal', value: name, effect: 'NoSchedule' }],
    affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } },
    imagePullSecrets: [{ name: 'registry-login' }],
    podAnnotations: { 'example.org/team': name },
    replicas: FIXED.includes(name) ? 5 : { min: 5, max: 50 },
    toolSecrets: [
      { env: 'CRM_TOKEN', secret: 'crm', key: 'token' },
      { env: 'GITHUB_TOKEN', secret: 'api-keys', key: 'github-token' },
    ],
  };
  if (!(field in given)) throw new Error(`no value for the field ${field} of classes`);
  return name !== 'all' && ['tolerations', 'imagePullSecrets'].includes(field) ? [] : [[field, given[field]]];
}

/**
 * Differences between the chart and the overlays, and values that are not refused as they should be, as lines.
 * @param {string} out folder for the renderings
 */
export function chartFaults(out) {
  const chart = join(out, 'chart/toolfleet');
  writeChart(chart);
  const { images } = overlayList('prod');
  const spec = readSettings(PRODUCTION);
  const cases = [
    ...Object.keys(VARIANTS)
      .filter((name) => VARIANTS[name].overlay === 'prod')
      .map((name) => ({ name, components: componentsOf(name), images, spec })),
    ...Object.keys(VARIANTS)
      .filter((name) => VARIANTS[name].overlay === 'prod')
      .map((name) => ({
        name: `${name}-other-settings`,
        components: componentsOf(name),
        images: images.map((image) => ({ ...image, digest: DIGEST })),
        spec: { ...otherSettings(), name: 'fleets-staging', namespace: 'fleets' },
        namespace: 'fleets',
        release: 'staging',
      })),
  ];
  const differing = cases.flatMap(({ name, components, release = 'toolfleet', namespace = 'toolfleet', ...rest }) => {
    const folder = join(out, 'chart', name);
    rmSync(folder, { recursive: true, force: true });
    copyOverlay('prod', folder, components, {
      'settings.yaml': settingsObject(rest.spec),
      classes: classComponent(rest.spec.classes, classNames(settingsSchema())),
      'kustomization.yaml': { images: rest.images, namespace },
    });
    const values = valuesOf({ components, ...rest });
    values.features.namespace = true;
    return differences(
      comparable(renderOverlay(folder)),
      comparable(renderChart(chart, values, release, namespace)),
    ).map((line) => `${name}: ${line}`);
  });
  return [...differing, ...REFUSED.flatMap(([change, named]) => acceptance(chart, change, named))];
}

/** A line if the chart accepts these values, or refuses them without naming the fault. */
function acceptance(chart, change, named) {
  const values = productionValues();
  change(values);
  try {
    renderChart(chart, values, 'toolfleet', 'toolfleet');
    return [`values with a wrong ${named} are accepted`];
  } catch (error) {
    return error.message.includes(named) ? [] : [`the message does not name ${named}: ${error.message}`];
  }
}

/** Objects by kind and name, without what differs on purpose: hashes in names of ConfigMaps, the checksum in their place, Helm's label. */
function comparable(objects) {
  let text = JSON.stringify(objects).replaceAll(
    '"app.kubernetes.io/managed-by":"Helm"',
    '"app.kubernetes.io/managed-by":"kustomize"',
  );
  for (const { kind, metadata } of objects) {
    const plain = metadata.name.replace(/-[a-z0-9]{10}$/, '');
    if (kind === 'ConfigMap' && plain !== metadata.name)
      text = text.replaceAll(JSON.stringify(metadata.name), JSON.stringify(plain));
  }
  const found = JSON.parse(text);
  for (const { kind, spec } of found) if (kind === 'Deployment') withoutChecksum(spec.template.metadata);
  return new Map(found.map((object) => [`${object.kind} ${object.metadata.name}`, object]));
}

function withoutChecksum(metadata) {
  const { 'checksum/settings': _, ...annotations } = metadata.annotations ?? {};
  metadata.annotations = annotations;
}

function differences(wanted, got) {
  return [...new Set([...wanted.keys(), ...got.keys()])].flatMap((id) => {
    if (!got.has(id)) return [`${id} is missing in the chart`];
    if (!wanted.has(id)) return [`${id} is only in the chart`];
    return firstDifference(wanted.get(id), got.get(id), id) ?? [];
  });
}

function firstDifference(wanted, got, path) {
  if (isDeepStrictEqual(wanted, got)) return undefined;
  if (wanted === null || got === null || typeof wanted !== 'object' || typeof got !== 'object')
    return `${path}: ${JSON.stringify(wanted)} in the overlay, ${JSON.stringify(got)} in the chart`;
  for (const key of new Set([...Object.keys(wanted), ...Object.keys(got)])) {
    const found = firstDifference(wanted[key], got[key], `${path}/${key}`);
    if (found !== undefined) return found;
  }
  return `${path}: another order`;
}
