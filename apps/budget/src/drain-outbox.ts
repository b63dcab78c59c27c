import type { Logger } from '@toolfleet/telemetry';
import { ledgerRowOf } from './charged-row.js';
import type { UsageOutbox } from './reservation-store.js';
import type { UsageStore } from './usage-store.js';

/** Entries read at once; an entry carries the rows of one settle message. */
const ENTRIES_PER_READ = 64;

/**
 * Moves what waits in a tenant's outbox into the ledger: write, then acknowledge. Dying in between writes again, and the
 * ledger skips what it has. Returns the number of rows moved.
 */
export async function drainOutbox(
  tenantId: string,
  outbox: UsageOutbox,
  ledger: UsageStore,
  logger: Logger,
): Promise<number> {
  let moved = 0;
  for (;;) {
    const entries = await outbox.read(tenantId, ENTRIES_PER_READ);
    if (entries.length === 0) return moved;
    const rows = entries.flatMap((entry) => entry.rows.map((row) => ledgerRowOf(row, entry.id, tenantId)));
    for (const row of rows) {
      if (row.call_id.startsWith('unreadable:')) logger.error({ entry: row.call_id }, 'a usage row cannot be read');
    }
    await ledger.append(rows);
    await outbox.acknowledge(tenantId, entries);
    moved += rows.length;
  }
}
