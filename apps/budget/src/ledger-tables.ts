/** Columns of `token_usage` as kysely sees them. PostgreSQL hands bigint back as text: convert where a value is read. */
export interface TokenUsageTable {
  user_id: string;
  task_id: string | null;
  agent_id: string;
  provider: string;
  model: string;
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  cache_aware_total_tokens: number;
  cost_usd: number;
  cache_read_tokens: number;
  cache_creation_tokens: number;
  tenant_id: string;
  call_id: string;
  kind: string;
  tool_name: string;
  caller_agent_id: string | null;
  request_id: string | null;
  real_tokens: number;
  micro_usd: number;
  success: number;
  provenance: string;
  ended_at: number;
  charged_at: number;
  day: string;
  /** Of a slice: the call it belongs to. Such rows have amounts and are no calls of their own. */
  parent_call_id: string | null;
}

/** Tables of the ledger database. */
export interface LedgerTables {
  token_usage: TokenUsageTable;
}
