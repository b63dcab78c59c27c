import type { RefusedTool } from '@toolfleet/contracts/registry';
import type { SourceLook } from '../definition-store.js';

/** Causes that a summary names. */
const MAX_CAUSES = 5;

/** How many tools were refused, by cause, each with the message of its first tool: `9 refused: 8 × …; 1 × …`. Empty for none. */
export function summarizeRefusals(refused: readonly RefusedTool[]): string {
  const causes = [...Map.groupBy(refused, ({ code }) => code).values()].toSorted((a, b) => b.length - a.length);
  const shown = causes.slice(0, MAX_CAUSES).map((tools) => `${tools.length} × ${tools[0]!.message}`);
  const more = causes.length > MAX_CAUSES ? [`and ${causes.length - MAX_CAUSES} other causes`] : [];
  return refused.length === 0 ? '' : `${refused.length} refused: ${[...shown, ...more].join('; ')}`;
}

/** State of a source after a look that gave these tools. One of which every tool was refused has failed, with the reasons. */
export function toLookState(
  registered: readonly string[],
  refused: RefusedTool[],
): Pick<SourceLook, 'state' | 'error' | 'refused'> {
  if (registered.length > 0 || refused.length === 0) return { state: 'ok', refused };
  return { state: 'failed', error: refused.length === 1 ? refused[0]!.message : summarizeRefusals(refused), refused };
}
