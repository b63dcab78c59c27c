/** L17 to L26: how a workload starts, is disturbed and ends, and which image it runs. */
import { matches } from './model.mjs';

/** Seconds the longest job of a class takes; what is not named ends within its drain time. */
const LONGEST_JOB = { 'python-sandbox': 60, 'builtin-agent': 60, 'mcp-executor': 30, 'openapi-executor': 30 };

const over = (pick) => (check) => (model) =>
  pick(model).flatMap((workload) => check(workload, model).map((fault) => `${workload.name}: ${fault}`));
const every = over((model) => model.workloads);
const own = over((model) => model.own);
const when = (condition, fault) => (condition ? [fault] : []);
const PROBES = ['startupProbe', 'readinessProbe', 'livenessProbe'];
const isEmbedded = ({ env }) => env.has('BUDGET_DATABASE_PATH') && !env.has('DATABASE_URL');

export const LIFE_RULES = {
  L17: every(({ pod }) => PROBES.filter((probe) => !pod.containers[0][probe]).map((probe) => `no ${probe}`)),
  L18: own(({ pod }) => {
    const paths = PROBES.map((probe) => pod.containers[0][probe]?.httpGet?.path);
    return [
      ...when(new Set(paths).size !== 3, 'probes share a path'),
      ...when(paths[2] !== '/health/live', 'liveness is not /health/live, which checks no dependency'),
    ];
  }),
  L19: own(({ name, pod, env }) => {
    const preStop = pod.containers[0].lifecycle?.preStop?.sleep?.seconds;
    const drain = Number(env.get('DRAIN_TIMEOUT_MS')?.value ?? 15_000) / 1_000;
    const longest = LONGEST_JOB[name] ?? 0;
    return [
      ...when(preStop === undefined, 'no preStop'),
      ...when(drain < longest, `drains ${drain} s, but a job may take ${longest} s`),
      ...when(
        !(pod.terminationGracePeriodSeconds > (preStop ?? 0) + Math.max(drain, longest)),
        'the grace period ends before the drain',
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
      .filter(({ spec }) => spec.unhealthyPodEvictionPolicy !== 'AlwaysAllow')
      .map(({ metadata }) => `${metadata.name}: pods that are not ready block a node drain`),
  L23: own(({ pod, labels }) =>
    when(
      !(pod.topologySpreadConstraints ?? []).some(
        ({ topologyKey, labelSelector }) => topologyKey === 'kubernetes.io/hostname' && matches(labelSelector, labels),
      ),
      'is not spread over hosts',
    ),
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
    const scaled = new Set(
      [...model.of('HorizontalPodAutoscaler'), ...model.of('ScaledObject')].map(({ spec }) => spec.scaleTargetRef.name),
    );
    return model.own
      .filter((workload) => isEmbedded(workload))
      .filter(({ name, object }) => (object.spec.replicas ?? 1) !== 1 || scaled.has(name))
      .map(({ name }) => `${name}: embedded SQLite allows one replica`);
  },
};
