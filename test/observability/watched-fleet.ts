/** A fleet as Prometheus sees it: series that stay healthy unless something is changed, in the notation of promtool. */

/** Value of a gauge, or growth of a counter per second; undefined while the series does not exist. `at` is in seconds since the start. */
type Value = (at: number) => number | undefined;

interface WatchedSeries {
  name: string;
  labels: Readonly<Record<string, string>>;
  value: Value;
}

/** Pods by workload. */
const PODS: Readonly<Record<string, number>> = {
  gateway: 3,
  registry: 2,
  budget: 2,
  records: 2,
  identity: 2,
  'builtin-compute': 2,
  'mcp-executor': 2,
  'openapi-executor': 2,
  'python-sandbox': 2,
};
const TOOLS: Readonly<Record<string, number>> = {
  'builtin-compute': 6,
  'mcp-executor': 10,
  'openapi-executor': 8,
  'python-runs': 1,
};
/** What each gateway counts: status of calls by number per second. */
const CALLS = { success: 5, tool_error: 0.1, refused: 0.1, cancelled: 0.02, system_error: 0.0002 };
const HOUR_S = 3_600;

/** Every pod of a fleet, class by class. */
export const INSTANCES = Object.entries(PODS).flatMap(([workload, count]) =>
  Array.from({ length: count }, (_, pod) => `${workload}-${pod}`),
);

const isCounter = (name: string): boolean => /_(total|count|sum|bucket)$/.test(name);

/** All series of one healthy fleet. `load` scales its calls over time. */
function healthy(namespace: string, load: (at: number) => number): WatchedSeries[] {
  const list: WatchedSeries[] = [];
  const add = (name: string, labels: Record<string, string>, value: number | Value | undefined) =>
    void list.push({
      name,
      labels: { namespace, ...labels },
      value: typeof value === 'function' ? value : () => value,
    });
  for (const [workload, count] of Object.entries(PODS)) {
    for (let pod = 0; pod < count; pod += 1) {
      const of = {
        app_kubernetes_io_name: workload,
        app_kubernetes_io_part_of: 'toolfleet',
        instance: `${workload}-${pod}`,
      };
      add('up', of, 1);
      add('process_start_time_seconds', of, 1);
      if (workload !== 'python-sandbox') add('toolfleet_component_ready', { ...of, component: 'nats' }, 1);
      if (workload !== 'builtin-compute') add('toolfleet_component_ready', { ...of, component: 'redis' }, 1);
      if (workload !== 'python-sandbox') add('toolfleet_expiry_days', { ...of, subject: 'nats' }, 90);
      for (const subject of ['policy', 'JWT keys', 'configuration file'])
        add('toolfleet_faults', { ...of, subject }, undefined);
      if (workload === 'gateway') addGateway(of);
      if (workload === 'registry')
        for (const [executor, tools] of Object.entries(TOOLS)) add('toolfleet_tools', { ...of, executor }, tools);
      if (workload === 'budget') {
        add('toolfleet_component_ready', { ...of, component: 'ledger' }, 1);
        add('toolfleet_ledger_outbox_entries', of, 3);
        add('toolfleet_budget_lease_expired_total', of, 0);
      }
      const executor = workload === 'python-sandbox' ? 'python-runs' : workload;
      if (executor in TOOLS) {
        add('toolfleet_worker_slots', { ...of, executor, state: 'busy' }, (at) => load(at) * 3);
        add('toolfleet_worker_slots', { ...of, executor, state: 'total' }, 16);
      }
    }
  }
  addCluster();
  return list;

  function addGateway(of: Record<string, string>): void {
    for (const [status, rate] of Object.entries(CALLS)) {
      const name = 'shannon_tool_executions_total';
      add(name, { ...of, status, tool_name: 'crm_find' }, (at) => rate * load(at));
    }
    add('shannon_tool_executions_total', { ...of, status: 'refused', tool_name: 'other' }, 0.001);
    for (const executor of Object.keys(TOOLS)) {
      for (const [status, share] of Object.entries({ success: 0.98, tool_error: 0.02 })) {
        const labels = { ...of, executor, status };
        add('toolfleet_executor_duration_seconds_count', labels, (at) => load(at) * 1.25 * share);
        add('toolfleet_executor_duration_seconds_sum', labels, (at) => load(at) * 1.25 * share * 0.02);
      }
    }
    for (const [le, rate] of Object.entries({ '0.005': 0.9, '0.01': 0.999, '0.025': 1, '+Inf': 1 }))
      add('toolfleet_gateway_overhead_seconds_bucket', { ...of, entry_point: 'http', le }, (at) => 5 * rate * load(at));
    for (const [reason, rate] of Object.entries({ unauthenticated: 0.01, auth_unavailable: 0, key_limit: 0.05 }))
      add('toolfleet_requests_rejected_total', { ...of, reason }, rate);
    for (const subject_class of ['exec.mcp', 'exec.openapi', 'budget.reserve']) {
      add('toolfleet_nats_no_responders_total', { ...of, subject_class }, 0);
      add('toolfleet_nats_ack_missed_total', { ...of, subject_class }, (at) => load(at) * 0.0005);
    }
    add('toolfleet_budget_unavailable_total', of, 0);
    add('toolfleet_result_store_failures_total', { ...of, operation: 'put' }, 0);
    add('toolfleet_limiter_fallback', of, 0);
    add('toolfleet_purge_age_seconds', of, 0);
    add('toolfleet_call_spool_age_seconds', of, 0.25);
    add('toolfleet_store_clock_offset_seconds', of, 0.004);
    add('toolfleet_expiry_days', { ...of, subject: 'jwt keys' }, 200);
    add('toolfleet_queue_oldest_job_age_seconds', { ...of, queue: 'python-runs' }, 0.4);
    add('toolfleet_redis_memory_used_bytes', of, (at) => 3e8 + 1e3 * Math.sin(at / 300));
    add('toolfleet_redis_memory_max_bytes', of, 1e9);
    add('toolfleet_redis_replicas', of, 1);
    add('toolfleet_redis_replica_lag_seconds', of, 1);
  }

  /** What kube-state-metrics exposes. */
  function addCluster(): void {
    const autoscaler = { horizontalpodautoscaler: 'gateway' };
    add('kube_horizontalpodautoscaler_status_current_replicas', autoscaler, PODS['gateway']);
    add('kube_horizontalpodautoscaler_spec_max_replicas', autoscaler, 20);
    for (const cronjob of ['backup-ledger', 'backup-redis']) {
      const startedAt = (at: number) => Math.floor(at / HOUR_S) * HOUR_S;
      add('kube_cronjob_created', { cronjob }, 0);
      add('kube_cronjob_status_last_schedule_time', { cronjob }, startedAt);
      add('kube_cronjob_status_last_successful_time', { cronjob }, (at) => startedAt(at - 45) + 40);
      add('kube_cronjob_status_active', { cronjob }, (at) => (at - startedAt(at) < 45 ? 1 : 0));
    }
  }
}

/** A change from the beginning of an outage on: `metric label=pattern …` (the metric is a pattern too), and the new value by seconds of outage; undefined removes the series. */
export type Change = readonly [
  series: string,
  value: number | undefined | ((seconds: number, before: number) => number | undefined),
];

function selects(selector: string): (series: WatchedSeries) => boolean {
  const [name = '', ...wanted] = selector.split(' ');
  const isNamed = new RegExp(`^(?:${name})$`);
  const patterns = wanted.map((one) => one.split('=') as [string, string]);
  return (series) =>
    isNamed.test(series.name) &&
    patterns.every(([label, pattern]) => {
      const key = label === 'app' ? 'app_kubernetes_io_name' : label;
      return new RegExp(`^(?:${pattern})$`).test(series.labels[key] ?? '');
    });
}

/** Options of a watched fleet. */
export interface WatchOptions {
  namespace: string;
  stepS: number;
  steps: number;
  /** Start of the changes, in seconds. */
  from?: number;
  changes?: readonly Change[];
  load?: (at: number) => number;
}

/** The series of a fleet with their values, as promtool reads them. @throws Error for a change that selects no series */
export function watchedFleet(options: WatchOptions): { series: string; values: string }[] {
  const { namespace, stepS, steps, from = Number.POSITIVE_INFINITY, changes = [], load = () => 1 } = options;
  const list = healthy(namespace, load);
  const matchers = changes.map(([selector, value]) => ({ selector, matches: selects(selector), value }));
  for (const { selector, matches } of matchers)
    if (!list.some(matches)) throw new Error(`no series of a fleet is ${selector}`);
  return list.flatMap((series) => {
    const applied = matchers.filter(({ matches }) => matches(series));
    const at = (seconds: number) =>
      applied.reduce<number | undefined>((before, { value }) => {
        if (seconds < from) return before;
        return typeof value === 'function' ? value(seconds - from, before ?? 0) : value;
      }, series.value(seconds));
    let total = 0;
    let existed = false;
    const values = Array.from({ length: steps }, (_, step) => {
      const value = at(step * stepS);
      if (value === undefined) {
        const text = existed ? 'stale' : '_';
        existed = false;
        return text;
      }
      existed = true;
      total += value * stepS;
      return String(Number((isCounter(series.name) ? total : value).toFixed(6)));
    });
    if (values.every((value) => value === '_')) return [];
    const labels = Object.entries(series.labels).map(([key, value]) => `${key}="${value}"`);
    return [{ series: `${series.name}{${labels.join(',')}}`, values: values.join(' ') }];
  });
}
