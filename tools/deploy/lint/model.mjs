/** Input of the lint rules: the objects of one rendering, and the reference pages of the repository. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import yaml from 'js-yaml';

/**
 * @typedef {object} Model
 * @property {object[]} objects every Kubernetes object
 * @property {Workload[]} workloads Deployments and StatefulSets
 * @property {'dev' | 'prod'} overlay
 * @property {{metric: string, query: string, isOfNamespace: boolean}[]} adapterRules external metrics that prometheus-adapter makes for HPAs
 */

/**
 * Keys of each service's configuration with their defaults, by the tables in docs/configuration.md (which a test keeps equal to
 * the code). A secret may also come from a file: `KEY_FILE`.
 * @returns {Record<string, Map<string, string>>} default by key, by service
 */
export function configurationDefaults(root) {
  const page = readFileSync(join(root, 'docs/configuration.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `(\w+)` \| ([\w ]+) \| ([^|]*) \| ([^|]*) \|/gm)].map(
    ([, key, kind, value, services]) => {
      const [, usual, others = ''] = /^(.*?)(?: \(([\w-]+: .*)\))?$/.exec(value);
      const exceptions = new Map(others.split(', ').map((one) => one.split(': ')));
      const keys = kind === 'secret' ? [key, `${key}_FILE`] : [key];
      const [, lacking] = /^all(?: but (.*))?$/.exec(services) ?? [];
      const named = services.startsWith('all') ? [] : services.split(', ');
      const has = (name) => named.includes(name) || (named.length === 0 && !lacking?.split(', ').includes(name));
      return { keys, usual, exceptions, named, has };
    },
  );
  const names = [...new Set(rows.flatMap(({ named }) => named))];
  return Object.fromEntries(
    names.map((name) => [
      name,
      new Map(
        rows.flatMap(({ keys, usual, exceptions, has }) =>
          has(name) ? keys.map((key) => [key, exceptions.get(name) ?? usual]) : [],
        ),
      ),
    ]),
  );
}

/** Names of the catalogue (docs/metrics.md) with the series of a histogram. */
export function metricNames(root) {
  const rows = readFileSync(join(root, 'docs/metrics.md'), 'utf8').matchAll(/^\| `(\w+)` \| (\w+) \|/gm);
  return new Set(
    [...rows].flatMap(([, name, type]) =>
      type === 'histogram' ? [name, `${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
    ),
  );
}

/** The adapter's rules, kept as a ConfigMap; `<<.LabelMatchers>>` and the like are the adapter's to fill in. */
function adapterRules(objects) {
  return objects
    .filter(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'prometheus-adapter-rules')
    .flatMap(({ data }) => yaml.load(data['adapter-rules.yaml']).externalRules)
    .map(({ seriesQuery, name, metricsQuery, resources }) => ({
      metric: name?.as ?? seriesQuery,
      isOfNamespace:
        resources?.overrides?.namespace?.resource === 'namespace' &&
        [...metricsQuery.matchAll(/\btoolfleet_\w+(?:\{[^}]*\})?/g)].every(([one]) =>
          one.includes('<<.LabelMatchers>>'),
        ),
      query: metricsQuery.replaceAll(/,?<<[^>]*>>/g, ''),
    }));
}

/** @returns {Model} */
export function modelOf(objects, { root, overlay }) {
  const workloads = objects
    .filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')
    .map((object) => {
      const { metadata, spec } = object.spec.template;
      const image = spec.containers[0].image;
      return {
        object,
        name: object.metadata.name,
        pod: spec,
        labels: metadata?.labels ?? {},
        containers: [...spec.containers, ...(spec.initContainers ?? [])],
        env: new Map((spec.containers[0].env ?? []).map((entry) => [entry.name, entry])),
        /** The toolfleet service that runs in it, or undefined for a store. */
        app: /(?:^|\/)toolfleet\/([\w-]+)[:@]/.exec(image)?.[1],
      };
    });
  return {
    objects,
    overlay,
    workloads,
    own: workloads.filter(({ app }) => app !== undefined),
    of: (kind) => objects.filter((object) => object.kind === kind),
    adapterRules: adapterRules(objects),
    defaults: configurationDefaults(root),
    metrics: metricNames(root),
    hasRunbook: (name) => existsSync(join(root, 'docs/runbooks', name)),
  };
}

/** Whether a label selector matches; an empty one matches everything. */
export function matches(selector, labels) {
  const exact = Object.entries(selector?.matchLabels ?? {}).every(([key, value]) => labels[key] === value);
  const expressions = (selector?.matchExpressions ?? []).every(({ key, operator, values }) => {
    if (operator === 'In') return values.includes(labels[key]);
    if (operator === 'NotIn') return !values.includes(labels[key]);
    return operator === 'Exists' ? key in labels : !(key in labels);
  });
  return exact && expressions;
}

/** Bytes of a Kubernetes quantity (`512Mi`). */
export function bytes(quantity) {
  const [, number, unit] = /^([\d.]+)([KMGT]i?)?$/.exec(String(quantity)) ?? [];
  const powers = { K: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
  return number === undefined ? Number.NaN : Number(number) * (unit ? powers[unit] : 1);
}

const PROMQL_WORDS = new Set(
  'and or unless by without on ignoring group_left group_right offset bool inf nan'.split(' '),
);

/** Metric names in a PromQL expression. */
export function metricsIn(expression) {
  const bare = expression
    .replaceAll(/"[^"]*"|'[^']*'/g, '')
    .replaceAll(/\{[^}]*\}/g, '')
    .replaceAll(/\[[^\]]*\]/g, '')
    .replaceAll(/\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)/g, '');
  return [...bare.matchAll(/[a-zA-Z_:][\w:]*(?!\w)(\s*\()?/g)]
    .filter(([text, call], at, all) => !call && !PROMQL_WORDS.has(text.toLowerCase()) && all[at].index >= 0)
    .map(([text]) => text)
    .filter((text) => !/^\d/.test(text) && !isDuration(bare, text));
}

/** `offset 1d` leaves a unit behind. */
function isDuration(expression, text) {
  return /^[smhdwy]$/.test(text) && new RegExp(`\\d${text}\\b`).test(expression);
}
