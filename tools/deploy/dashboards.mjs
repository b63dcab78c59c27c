/**
 * The Grafana dashboards as data; `npm run deploy:generate` writes deploy/grafana/*.json from it. Alert thresholds are drawn as
 * lines.
 */
const RATE = '[$__rate_interval]';
const calls = 'shannon_tool_executions_total';
const quantile = (q, metric, by = '') =>
  `histogram_quantile(${q}, sum by (${by ? `${by}, ` : ''}le) (rate(${metric}_bucket${RATE})))`;

/** [title, unit, [[query, legend], …], threshold?] */
export const DASHBOARDS = {
  'golden-signals': {
    title: 'toolfleet: golden signals',
    panels: [
      ['Calls per second by outcome', 'reqps', [[`sum by (status) (rate(${calls}${RATE}))`, '{{status}}']]],
      [
        'Share of calls failed by our fault',
        'percentunit',
        [[`sum(rate(${calls}{status="system_error"}${RATE})) / sum(rate(${calls}${RATE}))`, 'failed']],
        0.0144,
      ],
      [
        'Duration of calls',
        's',
        [
          [quantile(0.5, 'shannon_tool_execution_duration_seconds'), 'p50'],
          [quantile(0.95, 'shannon_tool_execution_duration_seconds'), 'p95'],
          [quantile(0.99, 'shannon_tool_execution_duration_seconds'), 'p99'],
        ],
      ],
      [
        'Time without executor, p99 by entry point',
        's',
        [[quantile(0.99, 'toolfleet_gateway_overhead_seconds', 'entry_point'), '{{entry_point}}']],
        0.025,
      ],
      ['Busiest tools', 'reqps', [[`topk(10, sum by (tool_name) (rate(${calls}${RATE})))`, '{{tool_name}}']]],
      [
        'Errors by class',
        'reqps',
        [[`sum by (error_type) (rate(shannon_tool_errors_total${RATE}))`, '{{error_type}}']],
      ],
      [
        'Refused by rate limit',
        'reqps',
        [[`sum by (tool_name) (rate(shannon_rate_limit_exceeded_total${RATE}))`, '{{tool_name}}']],
      ],
      [
        'Hit rate of the result cache',
        'percentunit',
        [
          [
            `sum(rate(toolfleet_cache_lookups_total{outcome="hit"}${RATE})) / sum(rate(toolfleet_cache_lookups_total{outcome=~"hit|miss"}${RATE}))`,
            'hits',
          ],
          [
            `topk(5, sum by (tool_name) (rate(toolfleet_cache_lookups_total{outcome="hit"}${RATE})) / sum by (tool_name) (rate(toolfleet_cache_lookups_total{outcome=~"hit|miss"}${RATE})))`,
            '{{tool_name}}',
          ],
        ],
      ],
      [
        'Failures replaced or explained',
        'reqps',
        [[`sum by (kind) (rate(toolfleet_fallbacks_total${RATE}))`, '{{kind}}']],
      ],
      ['Denied by policy', 'reqps', [[`sum by (rule) (rate(toolfleet_policy_denied_total${RATE}))`, '{{rule}}']]],
      ['Limits counted locally (1: Redis is unavailable)', 'short', [['max(toolfleet_limiter_fallback)', 'local']], 1],
      [
        'Event loop lag, p99',
        's',
        [
          [
            'max by (app_kubernetes_io_name, instance) (nodejs_eventloop_lag_p99_seconds)',
            '{{app_kubernetes_io_name}} {{instance}}',
          ],
        ],
      ],
    ],
  },
  'queues-workers': {
    title: 'toolfleet: queues and workers',
    panels: [
      [
        'Jobs by state',
        'short',
        [
          [
            'sum by (queue, state) (max by (queue, state) (toolfleet_queue_jobs{state=~"wait|prioritized|active|delayed"}))',
            '{{queue}} {{state}}',
          ],
        ],
      ],
      ['Age of the oldest job', 's', [['max by (queue) (toolfleet_queue_oldest_job_age_seconds)', '{{queue}}']], 30],
      ['Wait for a worker, p95', 's', [[quantile(0.95, 'toolfleet_queue_wait_seconds', 'queue'), '{{queue}}']], 5],
      [
        'Busy share of slots',
        'percentunit',
        [
          [
            'sum by (executor) (toolfleet_worker_slots{state="busy"}) / sum by (executor) (toolfleet_worker_slots{state="total"})',
            '{{executor}}',
          ],
        ],
        0.7,
      ],
      [
        'Jobs taken back from workers that died or hung',
        'short',
        [['sum by (queue) (increase(toolfleet_queue_stalled_total[1h]))', '{{queue}}']],
        1,
      ],
      ['Slots', 'short', [['sum by (executor) (toolfleet_worker_slots{state="total"})', '{{executor}}']]],
      [
        'Refused or dropped for lack of time or room',
        'reqps',
        [[`sum by (executor, reason) (rate(toolfleet_shed_total${RATE}))`, '{{executor}} {{reason}}']],
      ],
      [
        'Second attempts',
        'reqps',
        [[`sum by (executor, reason) (rate(toolfleet_retries_total${RATE}))`, '{{executor}} {{reason}}']],
      ],
      [
        'Requests without a responder',
        'reqps',
        [[`sum by (subject_class) (rate(toolfleet_nats_no_responders_total${RATE}))`, '{{subject_class}}']],
        1,
      ],
      [
        'Acknowledgements missed',
        'reqps',
        [[`sum by (subject_class) (rate(toolfleet_nats_ack_missed_total${RATE}))`, '{{subject_class}}']],
      ],
      [
        'Calls with unknown outcome',
        'short',
        [['sum by (executor) (increase(toolfleet_outcome_unknown_total[1h]))', '{{executor}}']],
        1,
      ],
    ],
  },
  sandbox: {
    title: 'toolfleet: sandbox',
    panels: [
      [
        'Runs per second',
        'reqps',
        [[`sum(rate(toolfleet_queue_wait_seconds_count{queue="python-runs"}${RATE}))`, 'runs']],
      ],
      [
        'Runs waiting or running',
        'short',
        [
          [
            'sum by (state) (max by (state) (toolfleet_queue_jobs{queue="python-runs",state=~"wait|prioritized|active"}))',
            '{{state}}',
          ],
        ],
      ],
      [
        'Wait for a slot',
        's',
        [
          [
            `histogram_quantile(0.5, sum by (le) (rate(toolfleet_queue_wait_seconds_bucket{queue="python-runs"}${RATE})))`,
            'p50',
          ],
          [
            `histogram_quantile(0.95, sum by (le) (rate(toolfleet_queue_wait_seconds_bucket{queue="python-runs"}${RATE})))`,
            'p95',
          ],
        ],
        5,
      ],
      [
        'Until a guest can run code, p95',
        's',
        [[quantile(0.95, 'toolfleet_sandbox_boot_seconds', 'kind'), '{{kind}}']],
      ],
      [
        'Guests ended from outside',
        'reqps',
        [[`sum by (reason) (rate(toolfleet_sandbox_killed_total${RATE}))`, '{{reason}}']],
      ],
      [
        'Duration of execute_python, p95',
        's',
        [
          [
            `histogram_quantile(0.95, sum by (le) (rate(shannon_tool_execution_duration_seconds_bucket{tool_name="execute_python"}${RATE})))`,
            'p95',
          ],
        ],
      ],
      [
        'Resident memory of workers',
        'bytes',
        [
          [
            'max by (instance) (process_resident_memory_bytes{app_kubernetes_io_name="python-sandbox"} or process_resident_memory_bytes{instance=~"python-sandbox.*"})',
            '{{instance}}',
          ],
        ],
      ],
    ],
  },
  budget: {
    title: 'toolfleet: budget and cost',
    panels: [
      ['Cost per hour', 'currencyUSD', [['sum(increase(shannon_tool_cost_usd[1h]))', 'all tools']]],
      [
        'Dearest tools, last hour',
        'currencyUSD',
        [['topk(10, sum by (tool_name) (increase(shannon_tool_cost_usd[1h])))', '{{tool_name}}']],
      ],
      [
        'Held by open leases (micro-USD)',
        'short',
        [['sum by (scope) (toolfleet_budget_reserved_micro_usd)', '{{scope}}']],
      ],
      [
        'Settled per second (micro-USD)',
        'short',
        [[`sum by (scope) (rate(toolfleet_budget_spent_micro_usd_total${RATE}))`, '{{scope}}']],
      ],
      [
        'Refused because budgets could not be checked',
        'reqps',
        [[`sum(rate(toolfleet_budget_unavailable_total${RATE}))`, 'refused']],
        0.01,
      ],
      ['Rows waiting for the ledger', 'short', [['max(toolfleet_ledger_outbox_entries)', 'rows']], 100],
      [
        'Leases charged because they expired unsettled',
        'short',
        [['sum(increase(toolfleet_budget_lease_expired_total[1h]))', 'leases']],
        1,
      ],
    ],
  },
  upstreams: {
    title: 'toolfleet: upstreams',
    panels: [
      [
        'Breakers (0 closed, 1 half-open, 2 open)',
        'short',
        [['max by (base_url, tool_name) (shannon_circuit_breaker_state)', '{{base_url}}{{tool_name}}']],
        2,
      ],
      [
        'Failures counted by breakers',
        'reqps',
        [[`sum by (base_url) (rate(shannon_circuit_breaker_failures_total${RATE}))`, '{{base_url}}']],
      ],
      [
        'Outbound requests refused',
        'reqps',
        [[`sum by (layer, reason) (rate(toolfleet_egress_blocked_total${RATE}))`, '{{layer}} {{reason}}']],
      ],
      ['Tools that await approval', 'short', [['max by (source) (toolfleet_tool_quarantined)', '{{source}}']], 1],
      [
        'Tokens left in the bucket last asked',
        'short',
        [['min by (tool_name) (shannon_rate_limit_tokens_available)', '{{tool_name}}']],
      ],
      [
        'Builds running',
        'short',
        [['count by (version, revision) (toolfleet_build_info)', '{{version}} {{revision}}']],
      ],
    ],
  },
};

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };

/** Chooses the shown fleets. */
const NAMESPACE = {
  name: 'namespace',
  label: 'Namespace',
  type: 'query',
  datasource: DATASOURCE,
  query: 'label_values(toolfleet_build_info, namespace)',
  includeAll: true,
  allValue: '.*',
  refresh: 2,
};

/** A query over the chosen namespaces only. */
const inNamespace = (expr) =>
  expr.replace(
    /\b((?:shannon|toolfleet|nodejs|process)_\w+)(\{)?/g,
    (_, name, brace) => `${name}{namespace=~"$namespace"${brace ? ',' : '}'}`,
  );

/** The JSON model Grafana reads. Ids and positions follow from the order, so that a change shows as a small difference. */
export function renderDashboard(name, { title, panels }) {
  return {
    uid: `toolfleet-${name}`,
    title,
    tags: ['toolfleet'],
    schemaVersion: 39,
    editable: false,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    templating: {
      list: [{ name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' }, NAMESPACE],
    },
    panels: panels.map(([panelTitle, unit, queries, threshold], index) => ({
      id: index + 1,
      type: 'timeseries',
      title: panelTitle,
      datasource: DATASOURCE,
      gridPos: { h: 8, w: 12, x: (index % 2) * 12, y: Math.floor(index / 2) * 8 },
      // Four scrapes at least in each rate window.
      interval: '15s',
      targets: queries.map(([expr, legendFormat], at) => ({
        refId: String.fromCharCode(65 + at),
        datasource: DATASOURCE,
        expr: inNamespace(expr),
        legendFormat,
      })),
      fieldConfig: {
        defaults: {
          unit,
          min: 0,
          custom: {
            fillOpacity: 8,
            showPoints: 'never',
            thresholdsStyle: { mode: threshold === undefined ? 'off' : 'line' },
          },
          thresholds: {
            mode: 'absolute',
            steps: [
              { color: 'green', value: null },
              ...(threshold === undefined ? [] : [{ color: 'red', value: threshold }]),
            ],
          },
        },
        overrides: [],
      },
      options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } },
    })),
  };
}
