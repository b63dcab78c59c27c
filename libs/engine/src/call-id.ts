import { randomUUID } from 'node:crypto';
import type { EpochMs } from '@toolfleet/contracts';

/**
 * The id of a new call: a UUIDv7 (RFC 9562, 5.7), 48 bits of time and 74 random ones. Ids of one moment are next to each other in the
 * indexes of the ledger and of the records, so an insert is half as expensive as one in a random place.
 */
export function newCallId(now: EpochMs): string {
  const time = Math.trunc(now).toString(16).padStart(12, '0');
  // Bits of a random UUID after its version: 12 random ones, the variant, 62 random ones.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
