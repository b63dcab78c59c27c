import type { RefusedTool } from '@toolfleet/contracts/registry';
import type { SourceLook } from '../definition-store.js';

/** State of a source after a look that gave these tools. One of which every tool was refused has failed, with the first reason. */
export function toLookState(
  registered: readonly string[],
  refused: RefusedTool[],
): Pick<SourceLook, 'state' | 'error' | 'refused'> {
  const [first] = refused;
  if (registered.length > 0 || !first) return { state: 'ok', refused };
  return { state: 'failed', error: first.message, refused };
}
