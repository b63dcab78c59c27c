/** Answers of the gateway's HTTP API as the console uses them (`/openapi.json`). */

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** `GET /api/v1/me`. */
export interface Me {
  tenant_id: string;
  user_id: string;
  roles: string[];
  /** Administers its tenant; true for operators, too. */
  admin: boolean;
  /** Operates the fleet: acts across tenants. */
  operator: boolean;
  via: string;
  key_id: string | null;
  tools: string[];
  tier: {
    name: string | null;
    requests_per_minute: number;
    requests_per_hour: number;
    requests_per_day: number;
  };
  version: string;
}

export type ToolKind = 'builtin' | 'python' | 'mcp' | 'openapi';

/** One row of `GET /api/v1/catalog`. */
export interface ToolRow {
  name: string;
  version: string;
  description: string;
  category: string;
  kind: ToolKind;
  source: { kind: string; name: string };
  tags: string[];
  available: boolean;
  dangerous: boolean;
  sandboxed: boolean;
  idempotent: boolean;
  requires_auth: boolean;
  session_aware: boolean;
  rate_limit: number;
  timeout_seconds: number;
  memory_limit_mb: number;
  cost_per_use: number;
  input_examples: JsonObject[];
  revision: string;
  /** Every tenant sees it. */
  shared: boolean;
  callable: boolean;
  not_callable_because?: { code: string; reason: string };
}

/** `GET /api/v1/catalog/:name`. */
export interface ToolDetail extends ToolRow {
  parameters: JsonObject;
  output_schema?: JsonObject;
}

/** Answer of a call; `success: false` is the tool's own failure. */
export interface CallBody {
  success: boolean;
  output: Json;
  text: string;
  error: string | null;
  metadata: JsonObject & { timing?: { queue_ms: number; wait_ms: number; execute_ms: number } };
  execution_time_ms: number;
  usage: { tokens: number; cost_usd: number };
  call_id: string;
}

/** `GET /api/v1/calls/:id`. */
export interface AsyncCall {
  call_id: string;
  status: string;
  result?: CallBody;
}

export type CallStatus = 'success' | 'tool_error' | 'refused' | 'system_error';

/** Where the time of a call went, in ms. */
export interface CallStages {
  admit_ms: number;
  wait_ms: number;
  queue_ms: number;
  execute_ms: number;
  rest_ms: number;
}

/** One of `GET /api/v1/recent-calls`. */
export interface RecentCall {
  cursor: string;
  call_id: string;
  ended_at: string;
  tenant_id: string;
  user_id: string;
  tool: string;
  kind?: ToolKind;
  door: string;
  origin: string;
  status: CallStatus;
  code?: string;
  error?: string;
  provenance?: string;
  dry_run?: true;
  attempts: number;
  duration_ms: number;
  stages: CallStages;
  cost_usd: number;
  trace_id?: string;
}

export interface Slots {
  busy: number;
  total: number;
}

/** `GET /api/v1/fleet`. */
export interface Fleet {
  queues: {
    queue: string;
    jobs: Record<string, number>;
    oldest_age_ms: number;
    slots: Slots;
    workers: ({ worker: string } & Slots)[];
  }[];
  executors: { service: string; instance: string; slots: Slots; age_ms: number }[];
}

/** One of `GET /api/v1/breakers`: closed ones are not told. */
export interface Breaker {
  key: string;
  /** The one tenant whose calls are refused; absent: those of all. */
  tenant_id?: string;
  state: 'open' | 'half_open';
  open_for_ms: number;
  protects: 'tool' | 'target';
  service: string;
  instances: number;
}

/** One of `GET /api/v1/limits`. */
export interface ToolLimit {
  tool: string;
  per_minute: number;
  left: number | null;
}

/** One of `GET /api/v1/budgets`. */
export interface Budget {
  scope: string;
  limit_usd: number | null;
  spent_usd: number;
  held_usd: number;
  limit_tokens: number | null;
  spent_tokens: number;
  held_tokens: number;
}

/** One of `GET /api/v1/usage?group_by=day,tool`. */
export interface UsageRow {
  day: string;
  tool_name: string;
  calls: number;
  tokens: number;
  cost_usd: number;
}

/** One of `GET /api/v1/quarantine`. */
export interface QuarantinedTool {
  name: string;
  source: { kind: string; name: string };
  reason: string;
  since_at: number;
  pending_revision: string;
  approved_revision: string | null;
  rejected?: { at: number; by: string };
  diff: { field: string; before: Json; after: Json }[];
  diff_omitted?: true;
}

/** One of `GET /api/v1/keys`. */
export interface ApiKey {
  id: string;
  tenant_id: string;
  client: string;
  user_id: string;
  roles: string[];
  tools: string[];
  tier: string | null;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

/** Body of `POST /api/v1/keys`. */
export interface NewKey {
  client: string;
  tenant_id?: string;
  user_id?: string;
  roles?: string[];
  tools?: string[];
  tier?: string;
  expires_in_seconds?: number;
}
