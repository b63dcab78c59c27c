import type { SourceStatus } from '@toolfleet/client';
import { plain, type Terminal } from '../terminal.js';

/** Open tasks after a registration: tools that await approval, those refused, and notes. */
export function showFindings(
  terminal: Terminal,
  source: Partial<Pick<SourceStatus, 'quarantined' | 'refused' | 'notes'>>,
): void {
  for (const { name, reason } of source.quarantined ?? [])
    terminal.out(`  quarantined  ${plain(`${name}: ${reason} (fleetctl approvals show ${name})`)}\n`);
  for (const { name, code, message } of source.refused ?? [])
    terminal.out(`  refused      ${plain(`${name}: ${message} (${code})`)}\n`);
  for (const note of source.notes ?? []) terminal.out(`  note         ${plain(note)}\n`);
}
