import { LABEL, SIGNALS, type ATTR, type AttributeKey, type PrometheusName } from './conventions.js';

export const CALL_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const HOP_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
/** Few, because the series exist for each class and outcome. */
const EXECUTOR_BUCKETS = [0.01, 0.1, 1, 10, 60];
const WAIT_BUCKETS = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** One metric of the catalogue. `labels` are closed lists or names from the registry, never ids, paths, tenants or error texts. */
export interface MetricEntry {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly help: string;
  readonly buckets?: readonly number[];
}

const entry = <const E extends MetricEntry>(value: E): E => value;

type HistogramName = Extract<keyof typeof SIGNALS, `${string}.duration`>;
type LabelOf<S extends HistogramName> = PrometheusName<
  (typeof ATTR)[keyof (typeof SIGNALS)[S]['attributes'] & AttributeKey]
>;

/** A duration of the OpenTelemetry conventions under the name of their mapping to Prometheus. */
function conventional<const S extends HistogramName>(signal: S, help: string) {
  const { attributes, buckets } = SIGNALS[signal];
  const labels = (Object.keys(attributes) as AttributeKey[]).map((key) => LABEL[key]) as LabelOf<S>[];
  return { name: `${signal.replaceAll('.', '_')}_seconds`, type: 'histogram' as const, labels, help, buckets };
}

/** Every metric of the fleet; names are published and do not change. `docs/metrics.md` is its mirror. */
export const METRICS = {
  toolExecutions: entry({
    name: 'shannon_tool_executions_total',
    type: 'counter',
    labels: ['tool_name', 'status'],
    help: 'Calls by outcome: success, tool_error, refused, cancelled, system_error',
  }),
  toolDuration: entry({
    name: 'shannon_tool_execution_duration_seconds',
    type: 'histogram',
    labels: ['tool_name'],
    help: 'Time of a call from entry point to reply',
    buckets: CALL_BUCKETS,
  }),
  toolErrors: entry({
    name: 'shannon_tool_errors_total',
    type: 'counter',
    labels: ['tool_name', 'error_type'],
    help: 'Failed calls by error class',
  }),
  toolCostUsd: entry({
    name: 'shannon_tool_cost_usd',
    type: 'counter',
    labels: ['tool_name'],
    help: 'Cost of calls in USD',
  }),
  breakerState: entry({
    name: 'shannon_circuit_breaker_state',
    type: 'gauge',
    labels: ['base_url', 'tool_name'],
    help: 'Worst state of a breaker for any tenant: 0 closed, 1 half-open, 2 open; of an upstream at executors (origin only), of a tool at gateways',
  }),
  breakerFailures: entry({
    name: 'shannon_circuit_breaker_failures_total',
    type: 'counter',
    labels: ['base_url'],
    help: 'Failures counted by a breaker',
  }),
  rateLimitExceeded: entry({
    name: 'shannon_rate_limit_exceeded_total',
    type: 'counter',
    labels: ['tool_name'],
    help: 'Calls refused by the rate limit',
  }),
  rateLimitTokens: entry({
    name: 'shannon_rate_limit_tokens_available',
    type: 'gauge',
    labels: ['tool_name'],
    help: 'Tokens left in the bucket last asked',
  }),
  queueJobs: entry({
    name: 'toolfleet_queue_jobs',
    type: 'gauge',
    labels: ['queue', 'state'],
    help: 'Jobs of a queue: wait, prioritized, active, delayed, completed, failed',
  }),
  queueOldestAge: entry({
    name: 'toolfleet_queue_oldest_job_age_seconds',
    type: 'gauge',
    labels: ['queue'],
    help: 'Age of the oldest waiting job',
  }),
  queueWait: entry({
    name: 'toolfleet_queue_wait_seconds',
    type: 'histogram',
    labels: ['queue'],
    help: 'Time a job waited before a worker took it',
    buckets: WAIT_BUCKETS,
  }),
  queueStalled: entry({
    name: 'toolfleet_queue_stalled_total',
    type: 'counter',
    labels: ['queue'],
    help: 'Jobs taken back from workers that died or hung longer than their lock',
  }),
  workerSlots: entry({
    name: 'toolfleet_worker_slots',
    type: 'gauge',
    labels: ['executor', 'state'],
    help: 'Slots of an executor class: busy, total',
  }),
  tools: entry({
    name: 'toolfleet_tools',
    type: 'gauge',
    labels: ['executor'],
    help: 'Registered tools of all tenants, by the executor class that runs them',
  }),
  componentReady: entry({
    name: 'toolfleet_component_ready',
    type: 'gauge',
    labels: ['component'],
    help: '1 while a component of the process is ready, else 0: connections to stores, servers, workers; and the ledger, which readiness does not include',
  }),
  faults: entry({
    name: 'toolfleet_faults',
    type: 'gauge',
    labels: ['subject'],
    help: 'Present faults of configuration, policy, sources and secrets, by class of subject (docs/operations/health.md)',
  }),
  expiry: entry({
    name: 'toolfleet_expiry_days',
    type: 'gauge',
    labels: ['subject'],
    help: 'Days until the certificate of a store, the last certificate of a CA file or the last signing key of the JWT issuer expires',
  }),
  storeClockOffset: entry({
    name: 'toolfleet_store_clock_offset_seconds',
    type: 'gauge',
    labels: [],
    help: 'Clock of this process minus the clock of Redis',
  }),
  requestsRejected: entry({
    name: 'toolfleet_requests_rejected_total',
    type: 'counter',
    labels: ['reason'],
    help: 'Requests rejected before they became calls: unauthenticated, auth_unavailable, key_limit, address_limit, connection_limit',
  }),
  executorDuration: entry({
    name: 'toolfleet_executor_duration_seconds',
    type: 'histogram',
    labels: ['executor', 'status'],
    help: 'Time of calls at their executor, by executor class and outcome',
    buckets: EXECUTOR_BUCKETS,
  }),
  purgeAge: entry({
    name: 'toolfleet_purge_age_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest purge that has not finished; 0 without one',
  }),
  eventStreams: entry({
    name: 'toolfleet_event_streams',
    type: 'gauge',
    labels: [],
    help: 'Open event streams of a gateway',
  }),
  gatewayOverhead: entry({
    name: 'toolfleet_gateway_overhead_seconds',
    type: 'histogram',
    labels: ['entry_point'],
    help: 'Time of a call without its executor',
    buckets: HOP_BUCKETS,
  }),
  sandboxBoot: entry({
    name: 'toolfleet_sandbox_boot_seconds',
    type: 'histogram',
    labels: ['kind'],
    help: 'Time until a guest can run code: cold, restored',
    buckets: WAIT_BUCKETS,
  }),
  sandboxKilled: entry({
    name: 'toolfleet_sandbox_killed_total',
    type: 'counter',
    labels: ['reason'],
    help: 'Guests ended from outside',
  }),
  budgetReserved: entry({
    name: 'toolfleet_budget_reserved_micro_usd',
    type: 'gauge',
    labels: ['scope'],
    help: 'Money held by open leases, in micro-USD',
  }),
  budgetSpent: entry({
    name: 'toolfleet_budget_spent_micro_usd_total',
    type: 'counter',
    labels: ['scope'],
    help: 'Money settled, in micro-USD',
  }),
  budgetUnavailable: entry({
    name: 'toolfleet_budget_unavailable_total',
    type: 'counter',
    labels: [],
    help: 'Calls refused because the budget service or its store was unavailable',
  }),
  budgetSettlementRefused: entry({
    name: 'toolfleet_budget_settlement_refused_total',
    type: 'counter',
    labels: [],
    help: 'Settlements the budget service refused to read; their calls are in no ledger row',
  }),
  budgetLeaseExpired: entry({
    name: 'toolfleet_budget_lease_expired_total',
    type: 'counter',
    labels: [],
    help: 'Leases charged in full because they were never settled',
  }),
  callSpoolAge: entry({
    name: 'toolfleet_call_spool_age_seconds',
    type: 'gauge',
    labels: [],
    help: 'Time for which the oldest finished call has waited to be recorded; 0 when none waits',
  }),
  callsUnrecorded: entry({
    name: 'toolfleet_calls_unrecorded_total',
    type: 'counter',
    labels: [],
    help: 'Finished calls that no record was kept of, because the service records was unavailable for too long',
  }),
  bodiesUnrecorded: entry({
    name: 'toolfleet_call_bodies_unrecorded_total',
    type: 'counter',
    labels: [],
    help: 'Recorded calls whose arguments and results were not kept although they should be: too many waited for the service records, or it refused them',
  }),
  eventsRefused: entry({
    name: 'toolfleet_events_refused_total',
    type: 'counter',
    labels: ['kind'],
    help: 'Events that the service records refused, because the service that reported them may not report this kind',
  }),
  webhookDeliveries: entry({
    name: 'toolfleet_webhook_deliveries_total',
    type: 'counter',
    labels: ['outcome'],
    help: 'Attempts to post an event: delivered, retried later, or failed for good',
  }),
  webhooksPending: entry({
    name: 'toolfleet_webhook_pending',
    type: 'gauge',
    labels: [],
    help: 'Events that wait to be posted, once a minute',
  }),
  webhookOverdue: entry({
    name: 'toolfleet_webhook_overdue_seconds',
    type: 'gauge',
    labels: [],
    help: 'Time for which the oldest due attempt has waited; more than a few minutes: events cannot be sent',
  }),
  webhookDelay: entry({
    name: 'toolfleet_webhook_delay_seconds',
    type: 'histogram',
    labels: [],
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    help: 'From an event to its delivery by the first attempt',
  }),
  outcomeUnknown: entry({
    name: 'toolfleet_outcome_unknown_total',
    type: 'counter',
    labels: ['executor'],
    help: 'Calls whose effect is not known',
  }),
  ledgerOutbox: entry({
    name: 'toolfleet_ledger_outbox_entries',
    type: 'gauge',
    labels: [],
    help: 'Settlements not yet in the ledger',
  }),
  limiterFallback: entry({
    name: 'toolfleet_limiter_fallback',
    type: 'gauge',
    labels: [],
    help: '1 while limits are counted locally because Redis is unavailable',
  }),
  redisMemoryUsed: entry({
    name: 'toolfleet_redis_memory_used_bytes',
    type: 'gauge',
    labels: [],
    help: 'Memory the fullest primary of Redis uses',
  }),
  redisMemoryMax: entry({
    name: 'toolfleet_redis_memory_max_bytes',
    type: 'gauge',
    labels: [],
    help: 'Memory that primary may use: maxmemory, or the memory of its machine where none is set',
  }),
  redisReplicas: entry({
    name: 'toolfleet_redis_replicas',
    type: 'gauge',
    labels: [],
    help: 'Online replicas of the primary of Redis that has the fewest',
  }),
  redisReplicaLag: entry({
    name: 'toolfleet_redis_replica_lag_seconds',
    type: 'gauge',
    labels: [],
    help: 'Seconds since the slowest online replica of Redis last acknowledged; 0 without replicas',
  }),
  resultStoreFailures: entry({
    name: 'toolfleet_result_store_failures_total',
    type: 'counter',
    labels: ['operation'],
    help: 'Failed operations of the result store: put, get, delete, sweep',
  }),
  natsNoResponders: entry({
    name: 'toolfleet_nats_no_responders_total',
    type: 'counter',
    labels: ['subject_class'],
    help: 'Requests on subjects without a subscriber',
  }),
  natsAckMissed: entry({
    name: 'toolfleet_nats_ack_missed_total',
    type: 'counter',
    labels: ['subject_class'],
    help: 'Exec messages sent again because no acknowledgement came in time',
  }),
  policyDenied: entry({
    name: 'toolfleet_policy_denied_total',
    type: 'counter',
    labels: ['rule'],
    help: 'Calls denied by a policy rule',
  }),
  toolQuarantined: entry({
    name: 'toolfleet_tool_quarantined',
    type: 'gauge',
    labels: ['source'],
    help: 'Tools that await approval',
  }),
  egressBlocked: entry({
    name: 'toolfleet_egress_blocked_total',
    type: 'counter',
    labels: ['layer', 'reason'],
    help: 'Outbound requests refused',
  }),
  outputMismatch: entry({
    name: 'toolfleet_output_mismatch_total',
    type: 'counter',
    help: 'Results of remote tools that do not match their own output schema',
    labels: ['tool_name'],
  }),
  interceptions: entry({
    name: 'toolfleet_interceptions_total',
    type: 'counter',
    labels: ['interceptor', 'did'],
    help: 'Interventions: refused, changed_arguments, answered, changed_answer, failed_open, failed_closed',
  }),
  cacheLookups: entry({
    name: 'toolfleet_cache_lookups_total',
    type: 'counter',
    labels: ['tool_name', 'outcome'],
    help: 'Lookups in the result cache: hit, miss; and coalesced, calls that missed and shared the result of a running call',
  }),
  fallbacks: entry({
    name: 'toolfleet_fallbacks_total',
    type: 'counter',
    labels: ['tool_name', 'kind'],
    help: 'Failures that were replaced or explained: stale_cache, stub_data, graceful_error',
  }),
  retries: entry({
    name: 'toolfleet_retries_total',
    type: 'counter',
    labels: ['executor', 'reason'],
    help: 'Attempts after the first, by kind of executor: builtin, mcp, openapi, python',
  }),
  shed: entry({
    name: 'toolfleet_shed_total',
    type: 'counter',
    labels: ['executor', 'reason'],
    help: 'Work refused or dropped because it could not finish in time',
  }),
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
  buildInfo: entry({
    name: 'toolfleet_build_info',
    type: 'gauge',
    labels: ['version', 'revision'],
    help: 'Version of the running build; always 1',
  }),
} as const satisfies Record<string, MetricEntry>;
