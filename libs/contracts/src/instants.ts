import { invalidRequest } from './errors/tool-error.js';
import type { EpochMs } from './units.js';

/** The instant of a text such as `2026-01-31T12:00:00Z`, or of the start of a day in UTC. @throws ToolError REQUEST_INVALID */
export function parseInstant(text: string): EpochMs {
  const at = Date.parse(text);
  if (Number.isNaN(at) || at < 0)
    throw invalidRequest(
      `'${text}' is not an instant since 1970; send one such as 2026-01-31T12:00:00Z, or a day such as 2026-01-31`,
    );
  return at;
}

export const toInstant = (at: EpochMs): string => new Date(at).toISOString();
export const instantOrNull = (at: EpochMs | undefined): string | null => (at === undefined ? null : toInstant(at));
