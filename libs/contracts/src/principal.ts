/** Who calls: the outcome of authentication. The tenant comes from the credential, never from a body or header. */
export interface Principal {
  tenantId: string;
  userId: string;
  roles: readonly string[];
  /** Globs (`*` matches any run of characters) of tool names this caller may use. */
  tools: readonly string[];
  /** How the caller proved itself. */
  via: 'api_key' | 'jwt' | 'nats_subject' | 'delegation' | 'local';
  /** Clear id of the API key, when `via` is `api_key`. */
  keyId?: string;
  /** Name of the rate class (`rate_limits.tiers`); `free` when unset. */
  tier?: string;
  /** Set for calls made by a tool on behalf of a caller: the call that spawned this one. */
  parentCallId?: string;
  /** Origin of that call when it was internal: what a tool does on behalf of a public caller stays public. */
  parentOrigin?: Origin;
  /** Budgets that call spends from; so does everything done on its behalf, whatever it names itself. */
  parentSpends?: SpendingScopes;
}

/** For whom a call spends, beside its tenant. */
export interface SpendingScopes {
  requestId: string;
  agentId?: string;
  taskId?: string;
}

/** `public` callers never reach dangerous tools; `internal` ones may when policy allows. */
export type Origin = 'public' | 'internal';

/** Role that may register tools, manage keys and approve quarantined tools. */
export const ADMIN_ROLE = 'admin';
