/** L17 to L26: how a workload starts, is disturbed and ends, and which image it runs. */
import { matches } from './model.mjs';

/**
 * The setting that bounds the longest work of each service, in its own configuration or the gateway's: no attempt at
 * an executor outlasts the synchronous call it belongs to. Asynchronous calls may be longer; another process takes them over.
 */
const LONGEST_WORK = {
  gateway: ['gateway', 'GATEWAY_CALL_TIMEOUT_MS'],
  'builtin-executor': ['gateway', 'GATEWAY_CALL_TIMEOUT_MS'],
  'mcp-executor': ['gateway', 'GATEWAY_CALL_TIMEOUT_MS'],
  'openapi-executor': ['gateway', 'GATEWAY_CALL_TIMEOUT_MS'],
  'python-sandbox': ['python-sandbox', 'WASI_TIMEOUT_SECONDS'],
  registry: ['registry', 'OPENAPI_FETCH_TIMEOUT'],
  budget: ['budget', 'STORE_TIMEOUT_MS'],
  records: ['records', 'STORE_TIMEOUT_MS'],
  identity: ['identity', 'STORE_TIMEOUT_MS'],
};
/** Longest time in which a service closes its connections after the drain (`STOP_TIMEOUT_MS` of libs/service). */
const STOP_SECONDS = 3;

/** Seconds the longest work of a workload may take, by the manifests or the default of the setting; undefined when unknown. */
export function longestWork(model, { app, env }) {
  const [owner, key] = LONGEST_WORK[app] ?? [];
  if (owner === undefined) return undefined;
  const ownerEnv = owner === app ? env : model.own.find((other) => other.app === owner)?.env;
  const value = Number(ownerEnv?.get(key)?.value ?? model.defaults[owner].get(key));
  return key.endsWith('_MS') ? value / 1_000 : value;
}

const over = (pick) => (check) => (model) =>
  pick(model).flatMap((workload) => check(workload, model).map((fault) => `${workload.name}: ${fault}`));
const every = over((model) => model.workloads);
const own = over((model) => model.own);
const when = (condition, fault) => (condition ? [fault] : []);
/** Names of the workloads that an autoscaler sizes. */
const scaledNames = (model) =>
  new Set(
    [...model.of('HorizontalPodAutoscaler'), ...model.of('ScaledObject')].map(({ spec }) => spec.scaleTargetRef.name),
  );
const PROBES = ['startupProbe', 'readinessProbe', 'livenessProbe'];
const isEmbedded = ({ env }) => env.has('DATABASE_DIR') && !env.has('DATABASE_URL');

export const LIFE_RULES = {
  L17: every(({ pod }) => PROBES.filter((probe) => !pod.containers[0][probe]).map((probe) => `no ${probe}`)),
  L18: own(({ pod }) => {
    const paths = PROBES.map((probe) => pod.containers[0][probe]?.httpGet?.path);
    return [
      ...when(new Set(paths).size !== 3, 'probes share a path'),
      ...when(paths[2] !== '/health/live', 'liveness is not /health/live, which checks no dependency'),
    ];
  }),
  L19: own((workload, model) => {
    const { app, pod, env } = workload;
    const preStop = pod.containers[0].lifecycle?.preStop?.sleep?.seconds;
    const drain = Number(env.get('DRAIN_TIMEOUT_MS')?.value ?? model.defaults[app]?.get('DRAIN_TIMEOUT_MS')) / 1_000;
    const longest = longestWork(model, workload);
    return [
      ...when(preStop === undefined, 'no preStop'),
      ...when(!Number.isFinite(longest), `no setting is known that bounds the longest work of ${app}`),
      ...when(drain < longest, `drains ${drain} s, but its longest work takes ${longest} s`),
      ...when(
        !(pod.terminationGracePeriodSeconds >= (preStop ?? 0) + drain + STOP_SECONDS),
        'the grace period ends before preStop, drain and stop',
      ),
    ];
  }),
  L20: every((workload) => {
    const { kind, spec } = workload.object;
    if (kind !== 'Deployment') return [];
    if (spec.strategy?.type === 'Recreate') return when(!isEmbedded(workload), 'Recreate without embedded SQLite');
    return when(spec.strategy?.rollingUpdate?.maxUnavailable !== 0, 'an update takes pods away first');
  }),
  L21: (model) => [
    ...model.workloads
      .filter(
        ({ labels }) =>
          model.of('PodDisruptionBudget').filter(({ spec }) => matches(spec.selector, labels)).length !== 1,
      )
      .map(({ name }) => `${name}: not exactly one PodDisruptionBudget`),
    ...model
      .of('PodDisruptionBudget')
      .filter(({ spec }) => model.workloads.filter(({ labels }) => matches(spec.selector, labels)).length !== 1)
      .map(({ metadata }) => `${metadata.name}: selects not exactly one workload`),
  ],
  L22: (model) =>
    model
      .of('PodDisruptionBudget')
      .flatMap(({ metadata, spec }) => [
        ...when(
          spec.unhealthyPodEvictionPolicy !== 'AlwaysAllow',
          `${metadata.name}: pods that are not ready block a node drain`,
        ),
        ...when(
          !String(spec.maxUnavailable).endsWith('%') &&
            model.workloads.some(({ name, labels }) => scaledNames(model).has(name) && matches(spec.selector, labels)),
          `${metadata.name}: a fixed number of pods makes the drain of a large class slow; use a percentage`,
        ),
      ]),
  L23: own(({ pod, labels }) =>
    ['kubernetes.io/hostname', 'topology.kubernetes.io/zone']
      .filter(
        (wanted) =>
          !(pod.topologySpreadConstraints ?? []).some(
            ({ topologyKey, labelSelector }) => topologyKey === wanted && matches(labelSelector, labels),
          ),
      )
      .map((key) => `is not spread over ${key}`),
  ),
  L24: every(({ pod }, model) =>
    when(
      !model.of('PriorityClass').some(({ metadata }) => metadata.name === pod.priorityClassName),
      'its PriorityClass is not set or not defined',
    ),
  ),
  L25: own(({ containers }, { overlay }) =>
    when(
      overlay === 'prod' && containers.some(({ image }) => !/@sha256:[0-9a-f]{64}$/.test(image)),
      'an image is not named by digest',
    ),
  ),
  L26: every(({ containers }) =>
    containers.flatMap(({ image, imagePullPolicy }) => {
      const name = image.split('@')[0];
      const tag = /:([\w.-]+)$/.exec(name)?.[1];
      return [
        ...when(tag === 'latest' || (!tag && !image.includes('@')), `${image} has no fixed version`),
        ...when(imagePullPolicy !== 'IfNotPresent', 'a fixed version needs imagePullPolicy IfNotPresent'),
      ];
    }),
  ),
  L41: (model) => {
    const scaled = scaledNames(model);
    return model.own
      .filter((workload) => isEmbedded(workload))
      .filter(({ name, object }) => (object.spec.replicas ?? 1) !== 1 || scaled.has(name))
      .map(({ name }) => `${name}: embedded SQLite allows one replica`);
  },
};
