/** L38 to L45 (L41 stands with life): what scales a workload and what watches it. */
import { matches, metricsIn } from './model.mjs';

/** Metrics that others expose: Kubernetes, the Node runtime, Prometheus itself. */
const FOREIGN = /^(kube_|nodejs_|process_|up$|scrape_)/;
/** Classes that work from a queue: nobody waits for their first pod within a request timeout. */
const QUEUE_CLASSES = new Set(['python-sandbox', 'builtin-agent']);
const COMMON_LABELS = ['app.kubernetes.io/part-of', 'app.kubernetes.io/managed-by'];

const scalers = (model) => [...model.of('HorizontalPodAutoscaler'), ...model.of('ScaledObject')];
const alerts = (model) => model.of('PrometheusRule').flatMap(({ spec }) => spec.groups.flatMap(({ rules }) => rules));

export const WATCH_RULES = {
  L38: (model) => {
    const targets = scalers(model).map(({ spec }) => spec.scaleTargetRef.name);
    return [...new Set(targets.filter((name, at) => targets.indexOf(name) !== at))].map(
      (name) => `${name} has more than one autoscaler`,
    );
  },
  L39: (model) =>
    model
      .of('ScaledObject')
      .filter(({ spec }) => spec.scaleTargetRef.name === 'python-sandbox')
      .filter(
        ({ spec }) => !spec.triggers.some(({ metadata }) => /active/.test(metadata?.query ?? metadata?.listName ?? '')),
      )
      .map(({ metadata }) => `${metadata.name} does not count running jobs: busy pods would look idle`),
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
  L42: (model) =>
    model.overlay !== 'prod'
      ? []
      : model.own
          .filter(
            ({ labels, containers }) =>
              !model
                .of('PodMonitor')
                .some(
                  ({ spec }) =>
                    matches(spec.selector, labels) &&
                    spec.podMetricsEndpoints.every(({ port }) =>
                      containers[0].ports?.some(({ name }) => name === port),
                    ),
                ),
          )
          .map(({ name }) => `${name} has no PodMonitor on a named port`),
  L43: (model) => {
    const recorded = new Set(alerts(model).flatMap(({ record }) => record ?? []));
    const queries = [
      ...alerts(model).map(({ alert, record, expr }) => [alert ?? record, expr]),
      ...model
        .of('ScaledObject')
        .flatMap(({ metadata, spec }) =>
          spec.triggers.flatMap(({ metadata: { query } }) => (query ? [[metadata.name, query]] : [])),
        ),
    ];
    return queries.flatMap(([name, query]) =>
      metricsIn(query)
        .filter((metric) => !model.metrics.has(metric) && !recorded.has(metric) && !FOREIGN.test(metric))
        .map((metric) => `${name}: ${metric} is not in the catalogue`),
    );
  },
  L44: (model) =>
    alerts(model)
      .filter(({ alert }) => alert)
      .flatMap(({ alert, labels = {}, annotations = {} }) => [
        ...(['page', 'ticket'].includes(labels.severity) ? [] : [`${alert}: severity is not page or ticket`]),
        ...(annotations.summary ? [] : [`${alert}: no summary`]),
        ...(model.hasRunbook(String(annotations.runbook_url).split('/').at(-1))
          ? []
          : [`${alert}: its runbook does not exist`]),
      ]),
  L45: (model) => [
    ...model
      .of('Namespace')
      .filter(({ metadata }) => metadata.labels?.['pod-security.kubernetes.io/enforce'] !== 'restricted')
      .map(({ metadata }) => `namespace ${metadata.name} does not enforce "restricted"`),
    ...model.objects
      .filter(({ metadata }) => COMMON_LABELS.some((label) => !metadata.labels?.[label]))
      .map(({ kind, metadata }) => `${kind} ${metadata.name} lacks a common label`),
  ],
};
