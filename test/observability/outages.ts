/** Outages that have to alert, and days on which nothing may: each as changes to the series of a healthy fleet. */
import { INSTANCES, type Change } from './watched-fleet.js';

/** An outage and the alert that must fire for it. */
export interface Outage {
  name: string;
  alert: string;
  changes: readonly Change[];
  /** Minutes within which it fires. Default 5. */
  within?: number;
  /** No other alert may page: what follows from the outage is not another outage. */
  isOnlyPage?: boolean;
}

const CALLS = 'shannon_tool_executions_total';
/** Up for half a minute, down for half a minute. */
const crashing = (seconds: number): number => (seconds % 60 < 30 ? 0 : 1);
const times = (factor: number) => (_: number, before: number) => before * factor;
/** Calls end in this status instead of succeeding. */
const callsEndAs = (status: string, perSecond = 5): Change[] => [
  [`${CALLS} status=success`, 0],
  [`${CALLS} status=${status} tool_name=crm_find`, perSecond],
];
const storeGone = (component: string): Change[] => [
  [`toolfleet_component_ready component=${component}`, 0],
  ['toolfleet_budget_unavailable_total', 5],
  ['toolfleet_limiter_fallback', component === 'redis' ? 1 : 0],
  ['toolfleet_nats_no_responders_total subject_class=exec.mcp', component === 'nats' ? 1 : 0],
  ['toolfleet_result_store_failures_total', 0],
  ...callsEndAs('system_error'),
  ...(component === 'redis'
    ? ([
        ['toolfleet_queue_oldest_job_age_seconds', (seconds) => (seconds > 30 ? undefined : 0.4)],
        ['toolfleet_redis_memory_used_bytes', (seconds) => (seconds > 45 ? undefined : 3e8)],
      ] satisfies Change[])
    : []),
];

export const OUTAGES: readonly Outage[] = [
  { name: 'every gateway of one fleet is gone', alert: 'ServiceAbsent', changes: [['up app=gateway', undefined]] },
  { name: 'no gateway answers a scrape', alert: 'ServiceAbsent', changes: [['up app=gateway', 0]] },
  { name: 'three gateways crash again and again', alert: 'InstancesFlapping', changes: [['up app=gateway', crashing]] },
  {
    name: 'three gateways restart within a scrape interval',
    alert: 'InstancesFlapping',
    changes: [['process_start_time_seconds app=gateway', (seconds) => 100 + Math.floor(seconds / 75)]],
  },
  {
    name: 'an executor class is 200 times as slow',
    alert: 'SlotsExhausted',
    changes: [
      ['toolfleet_executor_duration_seconds_sum executor=mcp-executor', times(200)],
      ['toolfleet_worker_slots executor=mcp-executor state=busy', 16],
    ],
  },
  {
    name: 'the same, with slots to spare',
    alert: 'ExecutorSlow',
    changes: [['toolfleet_executor_duration_seconds_sum executor=mcp-executor', times(200)]],
  },
  {
    name: 'every call of an executor class fails because of its tools',
    alert: 'ToolErrorsHigh',
    changes: [
      ['toolfleet_executor_duration_seconds_count executor=openapi-executor status=success', 0],
      ['toolfleet_executor_duration_seconds_count executor=openapi-executor status=tool_error', 1.25],
    ],
  },
  {
    name: 'all credentials are rejected',
    alert: 'CredentialsRejected',
    changes: [
      [CALLS, 0],
      ['toolfleet_requests_rejected_total reason=unauthenticated', 5],
    ],
  },
  { name: 'the policy denies everything', alert: 'CallsRefused', changes: callsEndAs('refused') },
  {
    name: 'one gateway of three has no Redis',
    alert: 'InstanceNotReady',
    changes: [['toolfleet_component_ready instance=gateway-0 component=redis', 0]],
  },
  {
    name: 'the result store is down',
    alert: 'ResultStoreFailing',
    changes: [['toolfleet_result_store_failures_total', 0.2]],
  },
  {
    name: 'a gateway counts rate limits alone',
    alert: 'LimiterFallback',
    changes: [['toolfleet_limiter_fallback instance=gateway-1', 1]],
  },
  {
    name: 'one of two mcp pods hangs with all its slots busy',
    alert: 'InstanceStuck',
    changes: [['toolfleet_worker_slots instance=mcp-executor-0 state=busy', 16]],
  },
  {
    name: 'one of two mcp pods does not answer a scrape',
    alert: 'InstanceDown',
    changes: [['up instance=mcp-executor-0', 0]],
  },
  {
    name: 'the tools of a class vanish',
    alert: 'ToolsVanished',
    changes: [['toolfleet_tools executor=openapi-executor', undefined]],
  },
  {
    name: 'more than half of the tools of a class vanish',
    alert: 'ToolsVanished',
    changes: [['toolfleet_tools executor=mcp-executor', 4]],
  },
  {
    name: 'an agent loops on an unknown tool while half of the calls fail',
    alert: 'ErrorBudgetFastBurn',
    changes: [
      [`${CALLS} tool_name=other`, 500],
      [`${CALLS} status=success`, 2.5],
      [`${CALLS} status=system_error`, 2.5],
    ],
  },
  {
    name: 'a purge is stuck, from half an hour on',
    alert: 'PurgeStuck',
    changes: [['toolfleet_purge_age_seconds', (seconds) => 1_800 + seconds]],
  },
  {
    name: 'the service that records calls is gone for minutes',
    alert: 'CallsNotRecorded',
    changes: [['toolfleet_call_spool_age_seconds', (seconds) => seconds]],
  },
  ...(
    [
      ['policy', 'gateway', 'ServiceFault'],
      ['JWT keys', 'gateway', 'ServiceFault'],
      ['configuration file', 'registry', 'ServiceFault'],
      ['store data', 'budget', 'StoreLostData'],
      ['store settings', 'gateway', 'StoreSettingsDangerous'],
    ] as const
  ).map(([subject, app, alert]): Outage => ({
    name: `a fault of ${subject}`,
    alert,
    changes: [[`toolfleet_faults app=${app} subject=${subject.replaceAll(' ', '.')}`, 1]],
  })),
  {
    name: 'a certificate expires within 14 days',
    alert: 'ExpirySoon',
    changes: [['toolfleet_expiry_days subject=nats', 13.9]],
  },
  {
    name: 'the last signing key expires within two days',
    alert: 'ExpiryImminent',
    changes: [['toolfleet_expiry_days subject=jwt.keys', 1.9]],
  },
  {
    name: 'clocks are apart',
    alert: 'ClocksApart',
    changes: [['toolfleet_store_clock_offset_seconds instance=gateway-2', -4]],
  },
  { name: 'Redis is down or hangs', alert: 'StoreDown', isOnlyPage: true, changes: storeGone('redis') },
  { name: 'NATS is down or hangs', alert: 'StoreDown', isOnlyPage: true, changes: storeGone('nats') },
  {
    name: 'no executor serves a subject',
    alert: 'ExecutorGone',
    changes: [['toolfleet_nats_no_responders_total subject_class=exec.mcp', 0.1]],
  },
  {
    name: 'no process of a class has slots',
    alert: 'ExecutorAbsent',
    changes: [['toolfleet_worker_slots executor=python-runs', undefined]],
  },
  {
    name: 'budgets cannot be checked',
    alert: 'BudgetStoreUnreachable',
    changes: [['toolfleet_budget_unavailable_total', 1]],
  },
  {
    name: 'the ledger is down',
    alert: 'LedgerUnreachable',
    changes: [['toolfleet_component_ready component=ledger', 0]],
  },
  {
    name: 'a queue is not served',
    alert: 'QueueAgeHigh',
    changes: [['toolfleet_queue_oldest_job_age_seconds', (seconds) => seconds]],
  },
  {
    name: 'Redis fills within half an hour',
    alert: 'RedisFillsSoon',
    changes: [['toolfleet_redis_memory_used_bytes', (seconds) => 5.5e8 + seconds * 5e5]],
  },
  {
    name: 'a backup fails, after its retries',
    alert: 'BackupFailed',
    changes: [
      ['kube_cronjob_status_last_schedule_time cronjob=backup-redis', (_, before) => before + 600],
      ['kube_cronjob_status_active cronjob=backup-redis', 0],
    ],
  },
  {
    name: 'backups have not run for three hours',
    alert: 'BackupTooOld',
    within: 6,
    changes: [
      ['kube_cronjob_status_last_schedule_time cronjob=backup-redis', -10_000],
      ['kube_cronjob_status_last_successful_time cronjob=backup-redis', -10_000],
    ],
  },
];

/** A time on which no alert fires. */
export interface QuietTime {
  name: string;
  changes?: readonly Change[];
  /** Share of the usual calls, by seconds since the start. */
  load?: (at: number) => number;
  /** The changes are made from the start on, instead of after an hour. */
  isFromStart?: boolean;
}

const oneCall = (seconds: number, from: number): number => (seconds >= from && seconds < from + 30 ? 1 / 30 : 0);
/** A pod does not answer for half a minute, is gone for another, and its successor is not ready at first. */
const replaced = (instance: string, index: number): Change[] => {
  const after = (seconds: number): number => Math.floor((seconds - 45 * 60 - index * 90) / 30);
  return [
    [`up instance=${instance}`, (at, before) => (after(at) === 0 ? 0 : after(at) === 1 ? undefined : before)],
    [`toolfleet_component_ready instance=${instance}`, (at, before) => (after(at) === 2 ? 0 : before)],
    [`process_start_time_seconds instance=${instance}`, (at, before) => (after(at) > 1 ? 1_000 : before)],
    [`(?!up$).* instance=${instance}`, (at, before) => ([0, 1].includes(after(at)) ? undefined : before)],
  ];
};

export const QUIET_TIMES: readonly QuietTime[] = [
  { name: 'a healthy fleet' },
  {
    name: 'a night with a call now and then, and an internal error every twelve minutes',
    load: () => 0.01,
    isFromStart: true,
    changes: [
      [`${CALLS} instance=gateway-0 status=system_error`, (seconds) => oneCall(seconds % 720, 0)],
      [`${CALLS} instance=gateway-[12] status=system_error`, 0],
      ['toolfleet_nats_no_responders_total instance=gateway-0 subject_class=exec.mcp', (at) => oneCall(at % 1_800, 60)],
      ['toolfleet_budget_unavailable_total instance=gateway-0', (seconds) => oneCall(seconds % 1_800, 120)],
      ['toolfleet_requests_rejected_total reason=unauthenticated', 0.2],
    ],
  },
  { name: 'traffic falls to a tenth within an hour', load: (at) => Math.max(0.1, 1 - at / 3_600) },
  {
    name: 'a single request without a responder, even one that is repeated',
    changes: ['exec.mcp', 'budget.reserve'].map((subject) => [
      `toolfleet_nats_no_responders_total instance=gateway-0 subject_class=${subject}`,
      (seconds) => 4 * oneCall(seconds, 30),
    ]),
  },
  {
    name: 'strangers without credentials, and an agent that loops on an unknown tool',
    changes: [
      ['toolfleet_requests_rejected_total reason=unauthenticated', 500],
      [`${CALLS} tool_name=other`, 500],
    ],
  },
  { name: 'a rolling update of every class', isFromStart: true, changes: INSTANCES.flatMap(replaced) },
  { name: 'half of the pods are not scraped', changes: [['(?!kube_).* instance=.*-1', undefined]] },
];
