/** L42 to L45: what watches the fleet. */
import { matches, metricsIn } from './model.mjs';

/** Metrics that others expose: Kubernetes, the Node runtime, Prometheus itself. */
const FOREIGN = /^(kube_|nodejs_|process_|up$|scrape_)/;
/** Labels of pods that a PodMonitor copies: autoscalers and alerts select by them. */
const TARGET_LABELS = ['app.kubernetes.io/name', 'app.kubernetes.io/part-of'];
const COMMON_LABELS = ['app.kubernetes.io/part-of', 'app.kubernetes.io/managed-by'];

/** An aggregation or a match that drops the namespace: one fleet would hide or alarm another on the same Prometheus. */
const WITHOUT_NAMESPACE =
  /\b(?:sum|avg|min|max|count|group|quantile|stddev|stdvar|topk|bottomk|count_values)\b(?!\s*by\s*\([^)]*\bnamespace\b)\s*(?:\(|by|without)|\bon\s*\((?![^)]*\bnamespace\b)/;

const alerts = (model) => model.of('PrometheusRule').flatMap(({ spec }) => spec.groups.flatMap(({ rules }) => rules));

export const WATCH_RULES = {
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
                    TARGET_LABELS.every((label) => spec.podTargetLabels?.includes(label)) &&
                    spec.podMetricsEndpoints.every(({ port }) =>
                      containers[0].ports?.some(({ name }) => name === port),
                    ),
                ),
          )
          .map(({ name }) => `${name} has no PodMonitor on a named port that copies its labels`),
  L43: (model) => {
    const recorded = new Set(alerts(model).flatMap(({ record }) => record ?? []));
    const queries = [
      ...alerts(model).map(({ alert, record, expr }) => [alert ?? record, expr]),
      ...model
        .of('ScaledObject')
        .flatMap(({ metadata, spec }) =>
          spec.triggers.flatMap(({ metadata: { query } }) => (query ? [[metadata.name, query]] : [])),
        ),
      ...model.adapterRules.map(({ metric, query }) => [`adapter rule ${metric}`, query]),
    ];
    const unknown = queries.flatMap(([name, query]) =>
      metricsIn(query)
        .filter((metric) => !model.metrics.has(metric) && !recorded.has(metric) && !FOREIGN.test(metric))
        .map((metric) => `${name}: ${metric} is not in the catalogue`),
    );
    const shared = alerts(model)
      .filter(({ expr }) => WITHOUT_NAMESPACE.test(expr.replaceAll(/"[^"]*"/g, '""')))
      .map(({ alert, record }) => `${alert ?? record}: part of it mixes the fleets of a Prometheus`);
    return [...unknown, ...shared];
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
