/**
 * `npm run deploy:chart`: makes the Helm chart `build/chart/toolfleet` and packs it. Its source is the kustomize tree: production is
 * rendered with a placeholder for each setting, once with every component and once without each of them; the differences become
 * the conditions of the templates. Values are settings.yaml of the overlay, the components (`features`) and the images.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import yaml from 'js-yaml';
import { template } from './chart-template.mjs';
import { objectsOf } from './lint.mjs';
import { configurationDefaults } from './lint/model.mjs';
import { program } from './programs.mjs';
import { PRODUCTION, readSettings, settingsIn, settingsObject, settingsSchema } from './settings.mjs';
import { copyOverlay, overlayList } from './variants.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
/** Templates that are written by hand: what values of a class do, and the notes after an installation. */
const OWN_FILES = join(ROOT, 'tools/deploy/chart');
export const CHART = join(ROOT, 'build/chart/toolfleet');
const AUTOSCALERS = ['keda', 'hpa', 'keda-redis'];
/** Components besides the autoscalers, in the order of the overlay: their additions to lists are in this order. */
const COMPONENTS = [
  'settings',
  'network-policy',
  'external-secrets',
  'prometheus-operator',
  'hpa-cpu',
  'admin-key',
  'oidc-client-secret',
  'jwt',
  'public-host',
  'ingress',
  'gateway-api',
  'gvisor',
  'stores-ca',
  'result-volume',
  'redis-sentinel',
];
export const CHART_COMPONENTS = [...COMPONENTS, ...AUTOSCALERS];
/** Components that every fleet has; a value turns each of the others on. */
const ALWAYS = ['settings', 'public-host'];
const OPTIONAL = COMPONENTS.filter((name) => !ALWAYS.includes(name));

const camel = (name) => name.replaceAll(/-(\w)/g, (_, letter) => letter.toUpperCase());
const idOf = ({ kind, metadata }) => `${kind}/${metadata.name}`;

/** Renders a kustomization. @returns {object[]} Kubernetes objects @throws Error with what kubectl printed */
export function renderOverlay(folder) {
  const { status, stdout, stderr } = spawnSync(
    program('kubectl') ?? 'kubectl',
    ['kustomize', '--load-restrictor=LoadRestrictionsNone', folder],
    { encoding: 'utf8', maxBuffer: 2 ** 26 },
  );
  if (status !== 0) throw new Error(stderr || 'kubectl is not installed');
  return objectsOf(stdout);
}

const componentsWith = (optional, autoscaler) => [
  ...COMPONENTS.filter((name) => ALWAYS.includes(name) || optional.includes(name)),
  ...(autoscaler === 'none' ? [] : [autoscaler]),
];

/**
 * Values of the chart that render the same objects as an overlay.
 * @param {{ components: string[], images: object[], spec: object }} overlay its components by name, its images and settings
 */
export function valuesOf({ components, images, spec }) {
  const { name: _, namespace: __, ...settings } = spec;
  return {
    ...settings,
    autoscaler: AUTOSCALERS.find((name) => components.includes(name)) ?? 'none',
    features: {
      namespace: false,
      ...Object.fromEntries(OPTIONAL.map((name) => [camel(name), components.includes(name)])),
    },
    images: Object.fromEntries(
      images.map(({ name, newName, digest }) => [camel(name.split('/').at(-1)), { name: newName ?? name, digest }]),
    ),
  };
}

/** Values of production as it is written. */
export function productionValues() {
  const { components, images } = overlayList('prod');
  const names = components.map((path) => path.split('/').at(-1));
  return valuesOf({ components: names, images, spec: readSettings(PRODUCTION) });
}

/** Schema of the values: the settings without those of the release and of the overlay's lists. */
export function valuesSchema() {
  const settings = settingsSchema();
  delete settings.properties.name;
  delete settings.properties.namespace;
  const keys = configurationDefaults(ROOT);
  const { default: _, ...classes } = settings.properties.classes.properties;
  for (const [name, of] of Object.entries(classes)) {
    const app = name in keys ? name : 'builtin-executor';
    // Only settings of its service, so that a misspelt setting is refused; secrets are files.
    const known = [...keys[app].keys()].filter((key) => !keys[app].has(`${key}_FILE`)).toSorted();
    const properties = Object.fromEntries(known.map((key) => [key, { type: 'string' }]));
    const fields = settings.definitions[of.$ref.split('/').at(-1)].properties;
    settings.properties.classes.properties[name] = {
      type: 'object',
      properties: { ...fields, env: { type: 'object', properties, additionalProperties: false } },
      additionalProperties: false,
    };
  }
  const own = {
    autoscaler: { enum: [...AUTOSCALERS, 'none'], description: 'Component that scales queue and slot classes' },
    features: {
      type: 'object',
      description: 'Components of deploy/k8s/components; namespace creates the Namespace with its Pod Security labels',
      properties: Object.fromEntries(['namespace', ...OPTIONAL].map((name) => [camel(name), { type: 'boolean' }])),
      additionalProperties: false,
      // Two ways in would be two sets of time-outs for one host.
      not: {
        properties: { ingress: { const: true }, gatewayApi: { const: true } },
        required: ['ingress', 'gatewayApi'],
      },
    },
    images: {
      type: 'object',
      description: 'Name and digest of each image',
      additionalProperties: {
        type: 'object',
        properties: { name: { type: 'string' }, digest: { type: 'string', pattern: '^sha256:[0-9a-f]{64}$' } },
        required: ['name', 'digest'],
        additionalProperties: false,
      },
    },
    global: { type: 'object', description: 'Set by Helm for subcharts; unused' },
  };
  const required = [
    ...settings.required.filter((name) => name in settings.properties),
    'autoscaler',
    'features',
    'images',
  ];
  return { ...settings, title: 'Values of toolfleet', properties: { ...settings.properties, ...own }, required };
}

/** Settings that are the release's in the chart. */
const OF_RELEASE = { name: '__Fleet__', namespace: '__Release.Namespace__' };

/** Settings with a placeholder for each: `__Values.host__`, in a list `__List.…__`, as the only key of a map. */
function placeholderSettings() {
  const spec = {};
  for (const { path, schema } of settingsIn(readSettings(PRODUCTION))) {
    const dotted = path.join('.');
    if (dotted === 'classes') continue;
    const parent = path.slice(0, -1).reduce((part, key) => (part[key] ??= {}), spec);
    const asType = { array: [`__List.${dotted}__`], object: { [`__Values.${dotted}__`]: '' } };
    parent[path.at(-1)] = OF_RELEASE[dotted] ?? asType[schema.type] ?? `__Values.${dotted}__`;
  }
  return spec;
}

/** Renders production with placeholders and these components. */
function renderPlaceholders(components, name) {
  const { images } = overlayList('prod');
  const files = {
    'settings.yaml': settingsObject(placeholderSettings()),
    'kustomization.yaml': {
      namespace: '__Release.Namespace__',
      labels: [
        {
          pairs: {
            'app.kubernetes.io/part-of': 'toolfleet',
            'app.kubernetes.io/managed-by': '__Release.Service__',
          },
          includeTemplates: true,
        },
      ],
      images: images.map((image) => {
        const key = camel(image.name.split('/').at(-1));
        return {
          name: image.name,
          newName: `__Values.images.${key}.name__`,
          digest: `__Values.images.${key}.digest__`,
        };
      }),
    },
  };
  return renderOverlay(copyOverlay('prod', join(ROOT, 'build/chart/source', name), components, files));
}

/**
 * The objects of the chart with their conditions.
 * @returns {{ object: object, condition?: string, marks: Map<string, string> }[]} `marks`: condition by JSON pointer in the object
 */
function conditionalObjects() {
  const full = renderPlaceholders(componentsWith(OPTIONAL, 'keda'), 'full');
  const none = new Set(renderPlaceholders(componentsWith(OPTIONAL, 'none'), 'none').map(idOf));
  const found = full
    .filter((object) => none.has(idOf(object)))
    .map((object) => ({
      object,
      condition: object.kind === 'Namespace' ? '.Values.features.namespace' : undefined,
      marks: new Map(),
    }));
  for (const name of OPTIONAL) {
    const condition = `.Values.features.${camel(name)}`;
    const less = new Map(
      renderPlaceholders(
        componentsWith(
          OPTIONAL.filter((other) => other !== name),
          'keda',
        ),
        `without-${name}`,
      ).map((object) => [idOf(object), object]),
    );
    for (const one of found) {
      const other = less.get(idOf(one.object));
      if (other === undefined) one.condition = condition;
      else markAdditions(one.object, other, '', (pointer) => one.marks.set(pointer, condition));
    }
  }
  for (const autoscaler of AUTOSCALERS) {
    const objects = autoscaler === 'keda' ? full : renderPlaceholders(componentsWith(OPTIONAL, autoscaler), autoscaler);
    const condition = `eq .Values.autoscaler "${autoscaler}"`;
    for (const object of objects)
      if (!none.has(idOf(object))) found.push({ object, condition, marks: new Map(), of: autoscaler });
  }
  return found;
}

/** Marks what `full` has in addition to `less`. @throws Error when a component changes or removes something */
function markAdditions(full, less, pointer, mark) {
  if (Array.isArray(full) && Array.isArray(less)) {
    let at = 0;
    for (const [index, item] of full.entries()) {
      if (at < less.length && isSame(item, less[at])) {
        markAdditions(item, less[at], `${pointer}/${index}`, mark);
        at += 1;
      } else mark(`${pointer}/${index}`);
    }
    if (at < less.length) throw new Error(`${pointer}: a component changes a list other than by adding to it`);
  } else if (full !== null && typeof full === 'object') {
    for (const [key, value] of Object.entries(full)) {
      if (key in less) markAdditions(value, less[key], `${pointer}/${key}`, mark);
      else mark(`${pointer}/${key}`);
    }
  } else if (full !== less) throw new Error(`${pointer}: a component changes a value, which a template cannot express`);
}

const isSame = (a, b) => (a?.name !== undefined ? a.name === b?.name : JSON.stringify(a) === JSON.stringify(b));

/** ConfigMaps with settings in them change without a new name: pods restart by a checksum of these settings instead. */
function restartOnChange(found) {
  const changing = new Map();
  for (const { object } of found) {
    const values = [...new Set(JSON.stringify(object.data ?? {}).match(/Values\.[\w.]+(?=__)/g))];
    if (object.kind === 'ConfigMap' && values.length > 0) changing.set(object.metadata.name, values);
  }
  return found.map((one) => {
    let text = JSON.stringify(one.object);
    const used = [...changing.keys()].filter((name) => text.includes(`"${name}"`));
    for (const name of used) text = text.replaceAll(`"${name}"`, JSON.stringify(name.replace(/-[a-z0-9]{10}$/, '')));
    const object = JSON.parse(text);
    if (object.kind === 'Deployment' && used.length > 0) {
      const values = [...new Set(used.flatMap((name) => changing.get(name)))].toSorted((a, b) => a.localeCompare(b));
      object.spec.template.metadata.annotations = { 'checksum/settings': `__checksum ${values.join(' ')}__` };
    }
    return { ...one, object };
  });
}

/** The condition under which an autoscaler sizes a class. */
function scaledWhen(objects, name) {
  const conditions = objects
    .filter(({ object }) => object.spec?.scaleTargetRef?.name === name)
    .map(({ condition }) => `(${condition})`);
  return conditions.length === 0 ? 'false' : `(or ${conditions.join(' ')})`;
}

/** An autoscaler with the bounds of its class in place of its own. */
function withBounds(object) {
  const name = object.spec?.scaleTargetRef?.name;
  if (name === undefined) return object;
  const bounded = structuredClone(object);
  const { spec } = bounded;
  const set = (part, key, bound) => {
    if (part?.[key] !== undefined) part[key] = `__bound ${name} ${bound} ${part[key]}__`;
  };
  for (const key of ['minReplicas', 'minReplicaCount']) set(spec, key, 'min');
  for (const key of ['maxReplicas', 'maxReplicaCount']) set(spec, key, 'max');
  set(spec.fallback, 'replicas', 'min');
  return bounded;
}

/** The chart as files. @returns {Record<string, string>} text by path in the chart */
export function chartFiles() {
  const { version, description } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const files = {
    'Chart.yaml': yaml.dump({
      apiVersion: 'v2',
      name: 'toolfleet',
      description,
      type: 'application',
      version,
      appVersion: version,
      kubeVersion: '>=1.30.0-0',
    }),
    'values.schema.json': `${JSON.stringify(valuesSchema(), null, 2)}\n`,
    'values.yaml': documented(productionValues()),
  };
  for (const file of readdirSync(OWN_FILES)) files[`templates/${file}`] = readFileSync(join(OWN_FILES, file), 'utf8');
  const objects = conditionalObjects();
  for (const { object, condition, marks, of } of restartOnChange(objects)) {
    const path = `templates/${of === undefined ? object.kind.toLowerCase() : `autoscaler-${of}`}.yaml`;
    const scaled = object.kind === 'Deployment' ? scaledWhen(objects, object.metadata.name) : undefined;
    files[path] = `${files[path] ?? ''}${template(withBounds(object), condition, marks, scaled)}`;
  }
  return files;
}

/** The values with the description of each above it. */
function documented(values) {
  const { properties } = valuesSchema();
  return Object.entries(values)
    .map(([key, value]) => {
      const of = properties[key];
      const details = Object.entries(of.properties ?? {}).flatMap(([name, { description }]) =>
        description ? [`#   ${name}: ${description}`] : [],
      );
      return [`# ${of.description}`, ...details, yaml.dump({ [key]: value }, { lineWidth: -1, noRefs: true })].join(
        '\n',
      );
    })
    .join('\n');
}

/** Writes the chart to a folder, emptied first. */
export function writeChart(folder = CHART) {
  rmSync(folder, { recursive: true, force: true });
  const files = chartFiles();
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return files;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const files = writeChart();
  const { version } = yaml.load(files['Chart.yaml']);
  const archive = `toolfleet-${version}.tgz`;
  const packed = spawnSync('tar', ['-czf', archive, 'toolfleet'], { cwd: dirname(CHART), encoding: 'utf8' });
  if (packed.status !== 0) throw new Error(packed.stderr);
  console.log(`${Object.keys(files).length} files in build/chart/toolfleet, packed as build/chart/${archive}`);
}
