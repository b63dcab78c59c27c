import { LABEL, SIGNALS, type ATTR, type AttributeKey, type PrometheusName } from './conventions.js';

const CALL_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const HOP_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
/** Few, because the series exist for each class and outcome. */
const EXECUTOR_BUCKETS = [0.01, 0.1, 1, 10, 60];
const WAIT_BUCKETS = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** One metric of the catalogue. `labels` are closed lists or names from the registry, never ids, paths, tenants or error texts. */
export type MetricEntry = { readonly name: string; readonly labels: readonly string[]; readonly help: string } & (
  | { readonly type: 'counter' | 'gauge' }
  | { readonly type: 'histogram'; readonly buckets: readonly number[] }
);

const counter = <const Label extends string>(name: string, labels: readonly Label[], help: string) =>
  ({ type: 'counter', name, labels, help }) as const;
const gauge = <const Label extends string>(name: string, labels: readonly Label[], help: string) =>
  ({ type: 'gauge', name, labels, help }) as const;
/** @param buckets upper bounds in seconds */
const histogram = <const Label extends string>(
  name: string,
  labels: readonly Label[],
  buckets: readonly number[],
  help: string,
) => ({ type: 'histogram', name, labels, buckets, help }) as const;

type HistogramName = Extract<keyof typeof SIGNALS, `${string}.duration`>;
type LabelOf<S extends HistogramName> = PrometheusName<
  (typeof ATTR)[keyof (typeof SIGNALS)[S]['attributes'] & AttributeKey]
>;

/** A duration of the OpenTelemetry conventions under the name of their mapping to Prometheus. */
function conventional<const S extends HistogramName>(signal: S, help: string) {
  const { attributes, buckets } = SIGNALS[signal];
  const labels = (Object.keys(attributes) as AttributeKey[]).map((key) => LABEL[key]) as LabelOf<S>[];
  return histogram(`${signal.replaceAll('.', '_')}_seconds`, labels, buckets, help);
}

/** Every metric of the fleet; names are published and do not change. `docs/metrics.md` is its mirror. */
export const METRICS = {
  toolExecutions: counter(
    'shannon_tool_executions_total',
    ['tool_name', 'status'],
    'Calls by outcome: success, tool_error, refused, cancelled, system_error',
  ),
  toolDuration: histogram(
    'shannon_tool_execution_duration_seconds',
    ['tool_name'],
    CALL_BUCKETS,
    'Time of a call from entry point to reply',
  ),
  toolErrors: counter('shannon_tool_errors_total', ['tool_name', 'error_type'], 'Failed calls by error class'),
  toolCostUsd: counter('shannon_tool_cost_usd', ['tool_name'], 'Cost of calls in USD'),
  breakerState: gauge(
    'shannon_circuit_breaker_state',
    ['base_url', 'tool_name'],
    'Worst state of a breaker for any tenant: 0 closed, 1 half-open, 2 open; of an upstream at executors (origin only), of a tool at gateways',
  ),
  breakerFailures: counter('shannon_circuit_breaker_failures_total', ['base_url'], 'Failures counted by a breaker'),
  rateLimitExceeded: counter('shannon_rate_limit_exceeded_total', ['tool_name'], 'Calls refused by the rate limit'),
  rateLimitTokens: gauge('shannon_rate_limit_tokens_available', ['tool_name'], 'Tokens left in the bucket last asked'),
  queueJobs: gauge(
    'toolfleet_queue_jobs',
    ['queue', 'state'],
    'Jobs of a queue: wait, prioritized, active, delayed, completed, failed',
  ),
  queueOldestAge: gauge('toolfleet_queue_oldest_job_age_seconds', ['queue'], 'Age of the oldest waiting job'),
  queueWait: histogram(
    'toolfleet_queue_wait_seconds',
    ['queue'],
    WAIT_BUCKETS,
    'Time a job waited before a worker took it',
  ),
  queueStalled: counter(
    'toolfleet_queue_stalled_total',
    ['queue'],
    'Jobs taken back from workers that died or hung longer than their lock',
  ),
  workerSlots: gauge('toolfleet_worker_slots', ['executor', 'state'], 'Slots of an executor class: busy, total'),
  tools: gauge(
    'toolfleet_tools',
    ['executor'],
    'Registered tools of all tenants, by the executor class that runs them',
  ),
  componentReady: gauge(
    'toolfleet_component_ready',
    ['component'],
    '1 while a component of the process is ready, else 0: connections to stores, servers, workers; and the ledger, which readiness does not include',
  ),
  faults: gauge(
    'toolfleet_faults',
    ['subject'],
    'Present faults of configuration, policy, sources and secrets, by class of subject (docs/operations/health.md)',
  ),
  expiry: gauge(
    'toolfleet_expiry_days',
    ['subject'],
    'Days until the certificate of a store, the last certificate of a CA file or the last signing key of the JWT issuer expires',
  ),
  storeClockOffset: gauge('toolfleet_store_clock_offset_seconds', [], 'Clock of this process minus the clock of Redis'),
  requestsRejected: counter(
    'toolfleet_requests_rejected_total',
    ['reason'],
    'Requests rejected before they became calls: unauthenticated, auth_unavailable, key_limit, address_limit, connection_limit',
  ),
  executorDuration: histogram(
    'toolfleet_executor_duration_seconds',
    ['executor', 'status'],
    EXECUTOR_BUCKETS,
    'Time of calls at their executor, by executor class and outcome',
  ),
  purgeAge: gauge('toolfleet_purge_age_seconds', [], 'Age of the oldest purge that has not finished; 0 without one'),
  eventStreams: gauge('toolfleet_event_streams', [], 'Open event streams of a gateway'),
  gatewayOverhead: histogram(
    'toolfleet_gateway_overhead_seconds',
    ['entry_point'],
    HOP_BUCKETS,
    'Time of a call without its executor',
  ),
  sandboxBoot: histogram(
    'toolfleet_sandbox_boot_seconds',
    ['kind'],
    WAIT_BUCKETS,
    'Time until a guest can run code: cold, restored',
  ),
  sandboxKilled: counter('toolfleet_sandbox_killed_total', ['reason'], 'Guests ended from outside'),
  budgetReserved: gauge('toolfleet_budget_reserved_micro_usd', ['scope'], 'Money held by open leases, in micro-USD'),
  budgetSpent: counter('toolfleet_budget_spent_micro_usd_total', ['scope'], 'Money settled, in micro-USD'),
  budgetUnavailable: counter(
    'toolfleet_budget_unavailable_total',
    [],
    'Calls refused because the budget service or its store was unavailable',
  ),
  budgetSettlementRefused: counter(
    'toolfleet_budget_settlement_refused_total',
    [],
    'Settlements the budget service refused to read; their calls are in no ledger row',
  ),
  budgetLeaseExpired: counter(
    'toolfleet_budget_lease_expired_total',
    [],
    'Leases charged in full because they were never settled',
  ),
  callSpoolAge: gauge(
    'toolfleet_call_spool_age_seconds',
    [],
    'Time for which the oldest finished call has waited to be recorded; 0 when none waits',
  ),
  callsUnrecorded: counter(
    'toolfleet_calls_unrecorded_total',
    [],
    'Finished calls that no record was kept of, because the service records was unavailable for too long',
  ),
  bodiesUnrecorded: counter(
    'toolfleet_call_bodies_unrecorded_total',
    [],
    'Recorded calls whose arguments and results were not kept although they should be: too many waited for the service records, or it refused them',
  ),
  eventsRefused: counter(
    'toolfleet_events_refused_total',
    ['kind'],
    'Events that the service records refused, because the service that reported them may not report this kind',
  ),
  webhookDeliveries: counter(
    'toolfleet_webhook_deliveries_total',
    ['outcome'],
    'Attempts to post an event: delivered, retried later, or failed for good',
  ),
  webhooksPending: gauge('toolfleet_webhook_pending', [], 'Events that wait to be posted, once a minute'),
  webhookOverdue: gauge(
    'toolfleet_webhook_overdue_seconds',
    [],
    'Time for which the oldest due attempt has waited; more than a few minutes: events cannot be sent',
  ),
  webhookDelay: histogram(
    'toolfleet_webhook_delay_seconds',
    [],
    [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    'From an event to its delivery by the first attempt',
  ),
  outcomeUnknown: counter('toolfleet_outcome_unknown_total', ['executor'], 'Calls whose effect is not known'),
  ledgerOutbox: gauge('toolfleet_ledger_outbox_entries', [], 'Settlements not yet in the ledger'),
  limiterFallback: gauge(
    'toolfleet_limiter_fallback',
    [],
    '1 while limits are counted locally because Redis is unavailable',
  ),
  redisMemoryUsed: gauge('toolfleet_redis_memory_used_bytes', [], 'Memory the fullest primary of Redis uses'),
  redisMemoryMax: gauge(
    'toolfleet_redis_memory_max_bytes',
    [],
    'Memory that primary may use: maxmemory, or the memory of its machine where none is set',
  ),
  redisReplicas: gauge('toolfleet_redis_replicas', [], 'Online replicas of the primary of Redis that has the fewest'),
  redisReplicaLag: gauge(
    'toolfleet_redis_replica_lag_seconds',
    [],
    'Seconds since the slowest online replica of Redis last acknowledged; 0 without replicas',
  ),
  resultStoreFailures: counter(
    'toolfleet_result_store_failures_total',
    ['operation'],
    'Failed operations of the result store: put, get, delete, sweep',
  ),
  natsNoResponders: counter(
    'toolfleet_nats_no_responders_total',
    ['subject_class'],
    'Requests on subjects without a subscriber',
  ),
  natsAckMissed: counter(
    'toolfleet_nats_ack_missed_total',
    ['subject_class'],
    'Exec messages sent again because no acknowledgement came in time',
  ),
  policyDenied: counter('toolfleet_policy_denied_total', ['rule'], 'Calls denied by a policy rule'),
  toolQuarantined: gauge('toolfleet_tool_quarantined', ['source'], 'Tools that await approval'),
  egressBlocked: counter('toolfleet_egress_blocked_total', ['layer', 'reason'], 'Outbound requests refused'),
  outputMismatch: counter(
    'toolfleet_output_mismatch_total',
    ['tool_name'],
    'Results of remote tools that do not match their own output schema',
  ),
  interceptions: counter(
    'toolfleet_interceptions_total',
    ['interceptor', 'did'],
    'Interventions: refused, changed_arguments, answered, changed_answer, failed_open, failed_closed',
  ),
  cacheLookups: counter(
    'toolfleet_cache_lookups_total',
    ['tool_name', 'outcome'],
    'Lookups in the result cache: hit, miss; and coalesced, calls that missed and shared the result of a running call',
  ),
  fallbacks: counter(
    'toolfleet_fallbacks_total',
    ['tool_name', 'kind'],
    'Failures that were replaced or explained: stale_cache, stub_data, graceful_error',
  ),
  retries: counter(
    'toolfleet_retries_total',
    ['executor', 'reason'],
    'Attempts after the first, by kind of executor: builtin, mcp, openapi, python',
  ),
  shed: counter(
    'toolfleet_shed_total',
    ['executor', 'reason'],
    'Work refused or dropped because it could not finish in time',
  ),
  executeToolDuration: conventional('gen_ai.execute_tool.duration', 'Time of a call, from the engine on'),
  mcpServerDuration: conventional(
    'mcp.server.operation.duration',
    'Time of an MCP request or notification at the gateway, until the response is sent',
  ),
  mcpClientDuration: conventional(
    'mcp.client.operation.duration',
    'Time of an MCP request or notification to an upstream server, until its response arrives',
  ),
  mcpClientSessionDuration: conventional(
    'mcp.client.session.duration',
    'Lifetime of a session with an upstream MCP server of a revision that has sessions',
  ),
  buildInfo: gauge('toolfleet_build_info', ['version', 'revision'], 'Version of the running build; always 1'),
} as const satisfies Record<string, MetricEntry>;
