import type { CallResult, Json } from '@toolfleet/contracts';

/** Larger results are not cached: a thousand of them must fit into a gateway. */
export const MAX_CACHED_CHARS = 256 * 1024;

/** Characters of a result, roughly as JSON, counted up to just above `limit`. */
export function roughSize(result: CallResult, limit: number): number {
  let size = result.text.length;
  const open: (Json | undefined)[] = [result.output, result.metadata, result.content ?? null];
  while (open.length > 0 && size <= limit) {
    const value = open.pop();
    if (typeof value === 'string') size += value.length + 2;
    else if (typeof value !== 'object' || value === null) size += 5;
    else if (Array.isArray(value)) {
      size += value.length + 2;
      for (const item of value) open.push(item);
    } else {
      for (const key in value) {
        size += key.length + 4;
        open.push(value[key]);
      }
    }
  }
  return size;
}
