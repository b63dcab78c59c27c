import type { JsonObject } from '@toolfleet/contracts';
import type { ToolsetDetail } from '@toolfleet/contracts/toolset';
import type { BreakerStatus, CallStages, ServiceFault, SlotStatus } from '@toolfleet/contracts/fleet';

/** The caller and its rights: `GET /api/v1/me`. */
export interface Me {
  tenant_id: string;
  user_id: string;
  roles: string[];
  /** Administers its tenant. True for operators as well. */
  admin: boolean;
  /** Operates the fleet, across tenants. */
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

/** A toolset with the names of its tools: `GET /api/v1/toolsets/{name}`. */
export interface ShownToolset extends ToolsetDetail {
  /** Null where they are not known: a toolset of the caller's own tenant has the name of this shared one. */
  tools: string[] | null;
}

/** Kind of executor that runs a tool. */
export type ToolKind = 'builtin' | 'python' | 'mcp' | 'openapi';

/** A tool and whether the caller may call it: a member of `GET /api/v1/catalog`. */
export interface CatalogTool {
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
  /** A call may be repeated with the same outcome. */
  idempotent: boolean;
  /** A call may change something outside. Calls that a tool makes of other tools have their own effects. */
  has_effects: boolean;
  requires_auth: boolean;
  session_aware: boolean;
  rate_limit: number;
  rate_limit_mode: 'reject' | 'wait';
  /** Null: the default of the tool's kind. */
  retry_policy: JsonObject | null;
  cache_ttl_seconds: number | null;
  /** Expression that selects the part of results that callers get; null when they get all. */
  select: string | null;
  /** Any JSON; null when the tool has none. */
  stub_data: unknown;
  timeout_seconds: number;
  memory_limit_mb: number;
  cost_per_use: number;
  input_examples: JsonObject[];
  revision: string;
  /** Visible to every tenant. */
  shared: boolean;
  callable: boolean;
  not_callable_because?: { code: string; reason: string };
}

/** A tool with its schemas: `GET /api/v1/catalog/:name`. */
export interface CatalogToolDetail extends CatalogTool {
  parameters: JsonObject;
  output_schema?: JsonObject;
}

/** How a recent call ended. */
export type RecentCallStatus = 'success' | 'tool_error' | 'refused' | 'cancelled' | 'system_error';

/** A member of `GET /api/v1/recent-calls`, and an event of its stream. */
export interface RecentCall {
  cursor: string;
  call_id: string;
  /** The call of the tool that made this one. */
  parent_call_id?: string;
  ended_at: string;
  tenant_id: string;
  user_id: string;
  tool: string;
  kind?: ToolKind;
  door: string;
  origin: string;
  status: RecentCallStatus;
  code?: string;
  error?: string;
  provenance?: string;
  attempts: number;
  /** Failed attempts before the last one, and the wait after each. */
  retried?: { attempt: number; error: string; delay_ms: number }[];
  duration_ms: number;
  stages: CallStages;
  cost_usd: number;
  trace_id?: string;
}

/** One recent call: `GET /api/v1/recent-calls/:id`. */
export interface RecentCallDetail {
  call: RecentCall;
  /** Calls that its tool made. */
  made: RecentCall[];
  /** For operators: where its trace and its log lines are; `log_search` is an address or a command. */
  logs?: { trace_url?: string; log_search?: string };
}

/** Queues, the processes that serve them, and faults: `GET /api/v1/fleet`. */
export interface Fleet {
  queues: {
    queue: string;
    jobs: Record<string, number>;
    oldest_age_ms: number;
    slots: SlotStatus;
    workers: ({ worker: string } & SlotStatus)[];
  }[];
  executors: { service: string; instance: string; slots: SlotStatus; age_ms: number }[];
  /** What is wrong with configuration and policies of running services; `instances` counts the processes that report it. */
  faults: (ServiceFault & { service: string; instances: number })[];
}

/** A breaker that is not closed: a member of `GET /api/v1/breakers`. */
export interface Breaker extends BreakerStatus {
  protects: 'tool' | 'target';
  service: string;
  instances: number;
}

/** Rate limit of a tool: a member of `GET /api/v1/limits`. `left` is null for tools past the first 200, whose use is not read. */
export interface ToolLimit {
  tool: string;
  per_minute: number;
  left: number | null;
}

/** A budget of the caller's tenant: a member of `GET /api/v1/budgets`. A limit of null means none. */
export interface Budget {
  scope: string;
  limit_usd: number | null;
  spent_usd: number;
  held_usd: number;
  limit_tokens: number | null;
  spent_tokens: number;
  held_tokens: number;
}

/** Usage of one group: a member of `rows` of `GET /api/v1/usage`. It has the members that the request grouped by. */
export interface UsageRow {
  /** UTC day, `2026-01-31`. */
  day?: string;
  tool_name?: string;
  user_id?: string;
  agent_id?: string;
  calls: number;
  tokens: number;
  cost_usd: number;
}

/** An API key without its secret: a member of `GET /api/v1/keys`. */
export interface ApiKey {
  id: string;
  tenant_id: string;
  client: string;
  user_id: string;
  roles: string[];
  tools: string[];
  /** Projects it may use; empty: its tenant's default project. */
  projects: string[];
  /** The toolset that it is bound to: `name`, or `name@version`; null: none. */
  toolset: string | null;
  tier: string | null;
  /** What its MCP requests see: every tool, two to find and call tools, or three to write programs; null: as their URL says. */
  mcp_mode: 'list' | 'search' | 'code' | null;
  /** Id of the key that it was created with; null: none. */
  parent_id: string | null;
  /** User that created it. */
  created_by: string;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

/** An API key to create: the body of `POST /api/v1/keys`. */
export interface NewKey {
  client: string;
  tenant_id?: string;
  user_id?: string;
  roles?: string[];
  tools?: string[];
  /** Project ids and globs; default: the tenant's default project. */
  projects?: string[];
  /** Toolset to bind the key to. */
  toolset?: string;
  tier?: string;
  mcp_mode?: 'list' | 'search' | 'code';
  expires_in_seconds?: number;
}
