/**
 * The account of a tenant: its quotas in the stores of the fleet, and which slots of a process its calls may hold. Every quota is
 * declared here, and every table and kind of Redis key names the quotas that bound it, or why none has to. `docs/quotas.md` is made from it,
 * and `test/account.spec.ts` finds stores and pools in the code that have no row.
 */
import { ToolError } from './errors/tool-error.js';

/** One quota. */
export interface QuotaEntry {
  /** The counted things, in the plural. */
  counts: string;
  per: 'tenant' | 'tenant and user' | 'user' | 'user and tool' | 'MCP session';
  /** The quota, or the setting with it. */
  most: number | string;
  unit?: 'bytes' | 'MiB';
  /** How to make room; completes "…; ". `beyond` describes the effect where nothing is refused. */
  free?: string;
  beyond?: string;
  /** The file that enforces it. */
  in: string;
}

/** Quotas of stored things. Those with a number are changed by `TENANT_QUOTAS`. */
export const QUOTAS = {
  declarations: {
    counts: 'declarations',
    per: 'tenant',
    most: 20,
    free: 'remove one: apply files without it',
    in: 'apps/gateway/src/operator/redis-declarations.ts',
  },
  declaration_bytes: {
    counts: 'bytes of the ids and notes of one declaration',
    per: 'tenant',
    most: 256 * 1024,
    unit: 'bytes',
    free: 'split it into several declarations',
    in: 'apps/gateway/src/operator/redis-declarations.ts',
  },
  keys: {
    counts: 'API keys, ended ones as long as they made others',
    per: 'tenant',
    most: 1_000,
    free: 'revoke some: DELETE /api/v1/keys/{id}',
    in: 'libs/access/lua/create-key.lua',
  },
  sources: {
    counts: 'registered sources',
    per: 'tenant',
    most: 200,
    free: 'remove one: DELETE /api/v1/sources/{kind}/{name}',
    in: 'apps/registry/lua/put.lua',
  },
  source_bytes: {
    counts: 'bytes of registrations, documents included',
    per: 'tenant',
    most: 64 * 1024 * 1024,
    unit: 'bytes',
    free: 'remove a source, or register documents by spec_url',
    in: 'apps/registry/lua/put.lua',
  },
  toolsets: {
    counts: 'toolsets',
    per: 'tenant',
    most: 200,
    free: 'remove one: DELETE /api/v1/toolsets/{name}',
    in: 'apps/registry/src/toolset-service.ts',
  },
  toolset_bytes: {
    counts: 'bytes of the versions of one toolset',
    per: 'tenant',
    most: 256 * 1024,
    unit: 'bytes',
    beyond: 'the oldest versions go, and all but the latest 50',
    in: 'apps/registry/lua/put-toolset.lua',
  },
  budgets: {
    counts: 'budgets that were set',
    per: 'tenant',
    most: 10_000,
    free: 'remove some: DELETE /api/v1/budgets',
    in: 'apps/budget/src/set-budgets.ts',
  },
  webhooks: {
    counts: 'webhooks',
    per: 'tenant',
    most: 20,
    free: 'remove one: DELETE /api/v1/webhooks/{id}',
    in: 'apps/records/src/webhook-endpoints.ts',
  },
  webhook_deliveries: {
    counts: 'events that wait for webhooks',
    per: 'tenant',
    most: 100_000,
    beyond: 'the webhook with the most is switched off',
    in: 'apps/records/src/delivery-queue.ts',
  },
  pending_approvals: {
    counts: 'calls that wait for an approval, with up to 256 KiB each',
    per: 'tenant',
    most: 1_000,
    free: 'decide on some of them',
    in: 'apps/records/src/approval-store.ts',
  },
  approval_grants: {
    counts: 'grants in force',
    per: 'user and tool',
    most: 100,
    free: 'revoke some: DELETE /api/v1/approval-grants/{id}; or approve without a grant',
    in: 'apps/records/src/approval-grant-store.ts',
  },
  sessions: {
    counts: 'sign-in sessions, those of MCP clients included',
    per: 'tenant and user',
    most: 200,
    beyond: 'the oldest ends',
    in: 'apps/identity/src/session-store.ts',
  },
  connect_attempts: {
    counts: 'connections that are under way',
    per: 'tenant and user',
    most: 20,
    beyond: 'the oldest ends',
    in: 'apps/identity/src/attempt-store.ts',
  },
  kept_results: {
    counts: 'results that are kept: of asynchronous and keyed calls, handles, cached ones',
    per: 'tenant',
    most: 'RESULT_QUOTA_MB',
    unit: 'MiB',
    free: 'call synchronously and without an idempotency key, or wait until stored results expire',
    in: 'libs/results/lua/kept-results.lua',
  },
  python_sessions: {
    counts: 'variables of Python sessions',
    per: 'tenant',
    most: 'PYTHON_SESSION_QUOTA_MB',
    unit: 'MiB',
    beyond: 'new variables are not kept',
    in: 'apps/python-sandbox/lua/count-session.lua',
  },
  workspace: {
    counts: 'files of one workspace',
    per: 'MCP session',
    most: 'SHANNON_MAX_WORKSPACE_SIZE_MB',
    unit: 'MiB',
    free: 'delete files',
    in: 'libs/builtin-tools/src/files/quota.ts',
  },
  queued_jobs: {
    counts: 'jobs that wait in one queue; its tenants take turns',
    per: 'tenant',
    most: 'QUEUE_MAX_WAITING',
    free: 'wait for jobs to end',
    in: 'libs/queue/lua/take-place.lua',
  },
  queued_bytes: {
    counts: 'jobs above 64 KiB in one queue',
    per: 'tenant',
    most: '64',
    unit: 'MiB',
    free: 'wait for jobs to end',
    in: 'libs/queue/lua/take-place.lua',
  },
  mcp_sessions: {
    counts: 'sessions of MCP clients with subscriptions, of up to 100 resources',
    per: 'tenant',
    most: '500',
    beyond: 'the one used least recently ends',
    in: 'libs/mcp/src/redis-session-subscriptions.ts',
  },
  searches: {
    counts: 'searches for tools that are kept to learn from',
    per: 'tenant',
    most: '200',
    beyond: 'the oldest goes',
    in: 'libs/catalog/src/redis-search-history.ts',
  },
} as const satisfies Record<string, QuotaEntry>;

type Entries = typeof QUOTAS;
/** A quota that `TENANT_QUOTAS` changes. */
type QuotaName = { [Name in keyof Entries]: Entries[Name]['most'] extends number ? Name : never }[keyof Entries];
/** The quotas in force. */
export type Quotas = Readonly<Record<QuotaName, number>>;

const entries = Object.entries(QUOTAS) as [keyof Entries, QuotaEntry][];
export const DEFAULT_QUOTAS = Object.fromEntries(
  entries.filter(([, { most }]) => typeof most === 'number').map(([name, { most }]) => [name, most]),
) as Quotas;

/** The quotas of `TENANT_QUOTAS`: `webhooks=50`; the others have their defaults. @throws Error that names the fault */
export function readQuotas(given: readonly string[]): Quotas {
  const changed = given.map((text) => {
    const [name = '', most = ''] = text.split('=');
    if (!Object.hasOwn(DEFAULT_QUOTAS, name))
      throw new Error(`'${name}' is not a quota; quotas are ${Object.keys(DEFAULT_QUOTAS).join(', ')}`);
    if (!/^[1-9]\d{0,11}$/.test(most)) throw new Error(`${name} must be a positive integer`);
    return [name, Number(most)];
  });
  return { ...DEFAULT_QUOTAS, ...(Object.fromEntries(changed) as Partial<Quotas>) };
}

/**
 * The one refusal of a store that is full.
 * @param most the quota in force
 */
export function quotaExceeded(name: keyof Entries, most: number, cause?: unknown): ToolError {
  const { counts, per, free }: QuotaEntry = QUOTAS[name];
  const message = `The quota of ${counts} is used up: ${most} per ${per}; ${free ?? 'wait until some end'}`;
  return new ToolError('QUOTA_EXCEEDED', { message, details: { quota: name, limit: most }, cause });
}

/** Quotas that bound a store, or why it needs none: it ends by itself, belongs to bounded entries, or only operators write it. */
type QuotaBound = readonly (keyof Entries)[] | { ends: string } | { with: string } | { operators: string };

/** SQL tables. */
export const TABLES: Readonly<Record<string, QuotaBound>> = {
  call_record: { ends: 'after RECORDS_RETENTION_DAYS; as many as rate limits let through' },
  call_batch: { ends: 'after a day' },
  call_body: { with: 'call_record, up to the limit of `call_bodies` each' },
  body_key: { with: 'the tenant: one, and one for each RECORDS_SECRET_KEY' },
  body_reading: { with: 'call_record' },
  call_approval: ['pending_approvals'],
  approval_vote: { with: 'call_approval: one for each person' },
  approval_grant: ['approval_grants'],
  approval_grant_use: { with: 'approval_grant: up to its max_uses' },
  fleet_event: { ends: 'after two days without repetition' },
  webhook_endpoint: ['webhooks'],
  webhook_delivery: ['webhook_deliveries'],
  sign_in_session: ['sessions'],
  user_grant: { with: 'the user: one for each source' },
  connect_attempt: ['connect_attempts'],
  used_once: { ends: 'with the state or token that was used' },
  oauth_record: { ends: 'by itself; of clients that no user has confirmed, the latest 5,000 stay' },
  token_usage: {
    ends: 'after BUDGET_LEDGER_RETENTION_DAYS, when they become sums; as many as rate limits let through',
  },
  usage_daily: { with: 'the tenant: one for each day, user, key and tool' },
  set_budget: ['budgets'],
  store_epoch: { operators: 'one row' },
};

/** Kinds of Redis keys, by their start. */
export const REDIS_KEYS: Readonly<Record<string, QuotaBound>> = {
  '{auth}:': ['keys'],
  '{b:': { ends: 'when its scopes are unused, and its leases and charges settled' },
  'budget:': { with: 'the tenants' },
  '{c:': ['kept_results'],
  '{call:': ['kept_results'],
  '{kept:': ['kept_results'],
  'rc:': ['kept_results'],
  '{i:': { ends: 'a day after the call' },
  '{fleet}:declarations:': ['declarations', 'declaration_bytes'],
  '{fleet': ['queued_jobs', 'queued_bytes'],
  'kl:': { ends: 'a day after the last request of the key' },
  'rl:': { ends: 'with the period of the limit' },
  'lc:': ['searches'],
  'ms:': ['mcp_sessions'],
  'probe:': { ends: 'within seconds' },
  '{purge}': { operators: 'a record for each purge' },
  '{registry}:toolset': ['toolsets', 'toolset_bytes'],
  '{registry}': ['sources', 'source_bytes'],
  '{s:': ['python_sessions'],
  '{store}:': { operators: 'one key' },
};

/**
 * The key of each kind of Redis keys that has the epoch of the store (`libs/queue/src/store-epoch.ts`), in the slot of the kind where it
 * has one slot; and the services that compare it.
 */
export const EPOCH_KEYS: Readonly<Record<string, readonly string[]>> = {
  '{auth}:epoch': ['gateway'],
  '{b:epoch}': ['budget'],
  'budget:epoch': ['budget'],
  '{c:epoch}': ['gateway', 'mcp-executor', 'openapi-executor', 'builtin-executor'],
  '{call:epoch}': ['gateway'],
  '{kept:epoch}': ['gateway'],
  'rc:epoch': ['gateway'],
  '{i:epoch}': ['gateway'],
  '{fleet}:epoch': ['gateway'],
  'kl:epoch': ['gateway'],
  'rl:epoch': ['gateway'],
  'lc:epoch': ['gateway'],
  'ms:epoch': ['gateway'],
  'probe:epoch': ['gateway'],
  '{purge}:epoch': ['gateway'],
  '{registry}:epoch': ['registry'],
  '{s:epoch}': ['python-sandbox'],
};

/** A pool of slots that calls hold, and the share of it that one tenant may have. */
interface PoolEntry {
  slots: string;
  most: string;
  /** A tenant may hold this many times as many slots as are free: of n, one alone has n / (n + 1). */
  timesFree: number;
}

/** Pools of slots that calls of all tenants hold. `FairSlots` takes the name of its row. */
export const POOLS = {
  calls: { slots: 'calls in flight at a gateway', most: '`GATEWAY_MAX_CALLS`', timesFree: 3 },
  executor: {
    slots: 'calls in flight at an executor',
    most: '`EXECUTOR_CONCURRENCY`',
    // Above 90 %, so that alerts and autoscaling see a fleet of one tenant that is full.
    timesFree: 19,
  },
  exchanges: { slots: 'exchanges with one MCP server', most: '100', timesFree: 3 },
  held_calls: {
    slots: 'calls whose MCP servers wait for answers of callers',
    most: '200; 25 per tenant',
    timesFree: 3,
  },
  management: { slots: 'questions of routes in flight at their owner', most: '100', timesFree: 3 },
  programs: {
    slots: 'programs with a caller that waits',
    most: '32 per tenant',
    timesFree: 3,
  },
  streams: {
    slots: 'event streams',
    most: '500; 100 per tenant',
    timesFree: 3,
  },
} as const satisfies Record<string, PoolEntry>;
export type PoolName = keyof typeof POOLS;
