/** L38 to L40 and L46 to L47 (L41 is in life-rules.mjs): autoscaling of a workload. */

/** Classes that work from a queue: no request timeout runs while their first pod starts. */
const QUEUE_CLASSES = new Set(['python-sandbox', 'builtin-agent']);
/** Classes that answer from memory and from Redis; docs/operations/scaling.md says why they stay at two. */
const FIXED_CLASSES = new Set(['registry', 'budget', 'records', 'identity']);

const scalers = (model) => [...model.of('HorizontalPodAutoscaler'), ...model.of('ScaledObject')];
const externalMetrics = ({ spec }) => (spec.metrics ?? []).flatMap(({ external }) => external?.metric.name ?? []);

/** Whether jobs in work raise the number a scaler asks for: by its query, its formula, or the adapter's rule. */
function countsRunning(model, scaler) {
  const { triggers = [], advanced } = scaler.spec;
  const formula = advanced?.scalingModifiers?.formula;
  const inRedis = triggers.filter(({ metadata }) => metadata?.listName?.endsWith(':active')).map(({ name }) => name);
  // A class may serve more than one queue; the length of each has to include running jobs.
  const lengths = triggers.filter(({ metadata }) => metadata?.query?.includes('toolfleet_queue_jobs'));
  return (
    (lengths.length > 0 && lengths.every(({ metadata }) => /active/.test(metadata.query))) ||
    (inRedis.length > 0 && inRedis.every((name) => namesIn(formula ?? '').includes(name))) ||
    externalMetrics(scaler).some((name) =>
      model.adapterRules.some(({ metric, query }) => metric === name && /active/.test(query)),
    )
  );
}

const queueShards = (model) =>
  Number(model.own.find(({ app }) => app === 'gateway')?.env.get('QUEUE_SHARDS')?.value ?? 1);

const namesIn = (formula) => formula.match(/[a-zA-Z_]\w*/g) ?? [];

export const SCALE_RULES = {
  L38: (model) => {
    const targets = scalers(model).map(({ spec }) => spec.scaleTargetRef.name);
    return [
      ...[...new Set(targets.filter((name, at) => targets.indexOf(name) !== at))].map(
        (name) => `${name} has more than one autoscaler`,
      ),
      ...model.workloads
        .filter(({ name, object }) => targets.includes(name) && object.spec.replicas !== undefined)
        .map(({ name }) => `${name} sets replicas, so that each apply undoes its autoscaler; set its bounds`),
    ];
  },
  L39: (model) => {
    const queueScalers = scalers(model).filter(({ spec }) => QUEUE_CLASSES.has(spec.scaleTargetRef.name));
    return [
      ...queueScalers
        .filter((scaler) => !countsRunning(model, scaler))
        .map(({ metadata }) => `${metadata.name} does not count running jobs: busy pods would look idle`),
      ...queueScalers
        .filter(({ spec }) => queueShards(model) > 1 && spec.triggers?.some(({ metadata }) => metadata?.listName))
        .map(
          ({ metadata }) => `${metadata.name} counts the jobs of one shard in Redis; use keda or hpa with QUEUE_SHARDS`,
        ),
    ];
  },
  L40: (model) =>
    scalers(model).flatMap(({ metadata, spec }) => {
      const least = spec.minReplicas ?? spec.minReplicaCount ?? 1;
      const most = spec.maxReplicas ?? spec.maxReplicaCount;
      return [
        ...(least <= most ? [] : [`${metadata.name}: least above most`]),
        ...(least >= (QUEUE_CLASSES.has(spec.scaleTargetRef.name) ? 1 : 2)
          ? []
          : [`${metadata.name}: fewer than 2 pods on a request path`]),
      ];
    }),
  L46: (model) => [
    ...model.of('HorizontalPodAutoscaler').flatMap((scaler) =>
      externalMetrics(scaler)
        .filter((name) => !model.adapterRules.some(({ metric }) => metric === name))
        .map((name) => `${scaler.metadata.name}: no rule of the adapter makes ${name}`),
    ),
    ...model.adapterRules
      .filter(({ isOfNamespace }) => !isOfNamespace)
      .map(({ metric }) => `adapter rule ${metric} counts other fleets of the same Prometheus`),
    ...model.of('ScaledObject').flatMap(({ metadata, spec }) => {
      const logins = new Set(model.of('TriggerAuthentication').map((login) => login.metadata.name));
      const triggers = new Set(spec.triggers.map(({ name }) => name));
      return [
        ...spec.triggers
          .flatMap(({ metadata: { query } }) => query?.match(/\btoolfleet_\w+(?:\{[^}]*\})?/g) ?? [])
          .filter((selected) => !selected.includes(`namespace="${metadata.namespace ?? 'toolfleet'}"`))
          .map((selected) => `${metadata.name}: ${selected} counts other fleets of the same Prometheus`),
        ...(spec.fallback?.behavior === 'currentReplicasIfHigher'
          ? []
          : [`${metadata.name}: without a metric its fallback does not keep the replicas`]),
        ...(spec.triggers.every(
          ({ type, metadata: query }) => type !== 'prometheus' || query.ignoreNullValues === 'false',
        )
          ? []
          : [`${metadata.name}: an empty answer of Prometheus counts as 0`]),
        ...spec.triggers
          .flatMap(({ authenticationRef }) => authenticationRef?.name ?? [])
          .filter((name) => !logins.has(name))
          .map((name) => `${metadata.name}: TriggerAuthentication ${name} does not exist`),
        ...namesIn(spec.advanced?.scalingModifiers?.formula ?? '')
          .filter((name) => !triggers.has(name))
          .map((name) => `${metadata.name}: its formula names ${name}, which is not a trigger`),
      ];
    }),
  ],
  L47: (model) => {
    if (model.overlay !== 'prod') return [];
    const scaled = new Set(scalers(model).map(({ spec }) => spec.scaleTargetRef.name));
    return model.own
      .filter(({ name, app }) => !scaled.has(name) && !FIXED_CLASSES.has(app))
      .map(({ name }) => `${name} has no autoscaler`);
  },
};
