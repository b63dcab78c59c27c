import { isJsonObject, syntheticTokens } from '@toolfleet/contracts';
import type { UsageRow } from '@toolfleet/contracts/budget';
import type { Logger } from '@toolfleet/telemetry';
import type { ChargedRow, OutboxEntry } from './reservation-store.js';
import type { UsageOutbox } from './redis-usage-outbox.js';
import type { LedgerRow, UsageLedger } from './usage-ledger.js';

/** Entries per read. An entry has the rows of one settle message, 1 to 500. */
const ENTRIES_PER_READ = 64;
/** Rows that are written together, at least if there are so many. A commit waits for the disk: in groups of 64, a row takes twice as long. */
const ROWS_PER_WRITE = 1_024;

/**
 * Moves the rows in a tenant's outbox to the ledger: first appends, then acknowledges. After a crash in between the rows are
 * appended again, and the ledger skips those it has. Returns the number of rows moved.
 */
export async function drainOutbox(
  tenantId: string,
  outbox: UsageOutbox,
  ledger: UsageLedger,
  logger: Logger,
): Promise<number> {
  let moved = 0;
  for (;;) {
    const entries = await readGroup(tenantId, outbox);
    if (entries.length === 0) return moved;
    const rows = entries.flatMap((entry) => entry.rows.map((row) => toLedgerRow(row, entry.id, tenantId)));
    for (const row of rows) {
      if (row.call_id.startsWith('unreadable:')) logger.error({ entry: row.call_id }, 'a usage row cannot be read');
    }
    await ledger.append(rows);
    await outbox.acknowledge(tenantId, entries);
    moved += rows.length;
  }
}

/** The oldest entries, with about the rows of one write. */
async function readGroup(tenantId: string, outbox: UsageOutbox): Promise<OutboxEntry[]> {
  const entries: OutboxEntry[] = [];
  for (let rows = 0; rows < ROWS_PER_WRITE;) {
    const page = await outbox.read(tenantId, ENTRIES_PER_READ, entries.at(-1)?.id);
    entries.push(...page);
    rows += page.reduce((sum, entry) => sum + entry.rows.length, 0);
    if (page.length < ENTRIES_PER_READ) break;
  }
  return entries;
}

/**
 * The ledger row of an outbox row: the caller's report with the amounts that were charged. An expired lease has no report and is
 * recorded as failed with provenance `unknown`.
 */
export function toLedgerRow(charged: ChargedRow, entryId: string, tenantId: string): LedgerRow {
  const reported = parseReport(charged.row);
  const real = reported.real_tokens ?? 0;
  const synthetic = reported.tokens !== undefined && reported.tokens !== real;
  // A call that is charged in slices has a row per slice and reports 0 tokens itself.
  const none = reported.tokens === 0 ? 0 : undefined;
  const tokens = synthetic ? reported.tokens : charged.tokens > 0 ? charged.tokens : none;
  return {
    // An unreadable row was charged too, so it is recorded under the id of its entry.
    call_id: reported.call_id ?? `unreadable:${entryId}`,
    tenant_id: tenantId,
    user_id: reported.user_id ?? 'unknown',
    tool_name: reported.tool_name ?? 'unknown',
    agent_id: reported.agent_id || undefined,
    task_id: reported.task_id || undefined,
    request_id: reported.request_id || undefined,
    parent_call_id: reported.parent_call_id || undefined,
    key_id: reported.key_id || undefined,
    source: reported.source || undefined,
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

function parseReport(json: string): Partial<UsageRow> {
  try {
    const parsed: unknown = JSON.parse(json);
    return isJsonObject(parsed) ? (parsed as Partial<UsageRow>) : {};
  } catch {
    return {};
  }
}
