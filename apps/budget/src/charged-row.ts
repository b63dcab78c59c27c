import { isJsonObject, syntheticTokens } from '@toolfleet/contracts';
import type { UsageRow } from '@toolfleet/contracts/budget';
import type { ChargedRow } from './reservation-store.js';
import type { LedgerRow } from './usage-store.js';

/**
 * The ledger row of an outbox row: what the caller reported, with the amounts that were really charged. A lease that
 * expired has no report; it is recorded as failed with provenance `unknown`.
 */
export function ledgerRowOf(charged: ChargedRow, entryId: string, tenantId: string): LedgerRow {
  const reported = reportOf(charged.row);
  const real = reported.real_tokens ?? 0;
  const synthetic = reported.tokens !== undefined && reported.tokens !== real;
  // A call whose usage has rows of its own, one per slice, reports none itself.
  const none = reported.tokens === 0 ? 0 : undefined;
  const tokens = synthetic ? reported.tokens : charged.tokens > 0 ? charged.tokens : none;
  return {
    // A row nobody can read still has cost something: it keeps a name of its own rather than vanish.
    call_id: reported.call_id ?? `unreadable:${entryId}`,
    tenant_id: tenantId,
    user_id: reported.user_id ?? 'unknown',
    tool_name: reported.tool_name ?? 'unknown',
    ...(reported.agent_id ? { agent_id: reported.agent_id } : {}),
    ...(reported.task_id ? { task_id: reported.task_id } : {}),
    ...(reported.request_id ? { request_id: reported.request_id } : {}),
    ...(reported.parent_call_id ? { parent_call_id: reported.parent_call_id } : {}),
    tokens: tokens ?? syntheticTokens(charged.microUsd),
    real_tokens: charged.tokens,
    micro_usd: charged.microUsd,
    success: charged.kind === 'settled' && (reported.success ?? false),
    provenance: charged.kind === 'settled' ? (reported.provenance ?? 'unknown') : 'unknown',
    at: reported.at ?? charged.at,
    kind: charged.kind,
    charged_at: charged.at,
  };
}

function reportOf(json: string): Partial<UsageRow> {
  try {
    const parsed: unknown = JSON.parse(json);
    return isJsonObject(parsed) ? (parsed as Partial<UsageRow>) : {};
  } catch {
    return {};
  }
}
