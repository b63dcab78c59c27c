import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';

/** Maximum characters of a field as JSON: lists contain it. */
export const MAX_LISTING_CHARS = 16 * 1024;
/** Addresses of icons that clients may load; the protocol warns of others, such as `javascript:`. */
const ICON_ADDRESS = /^(?:https?:|data:image\/)/i;

/**
 * The fields with which an MCP server lists something (of a tool: icons and `_meta`), without members that are too large or unsafe to show, and the names
 * of omitted members.
 */
export function readListing({ listing = {} }: { listing?: JsonObject }): {
  listing: JsonObject | undefined;
  dropped: string[];
} {
  const isSafe = (icon: Json): boolean => isJsonObject(icon) && ICON_ADDRESS.test(String(icon['src']));
  const kept = Object.entries(listing).filter(
    ([field, value]) =>
      JSON.stringify(value).length <= MAX_LISTING_CHARS &&
      (field !== 'icons' || (Array.isArray(value) && value.every(isSafe))),
  );
  const dropped = Object.keys(listing).filter((field) => !kept.some(([name]) => name === field));
  return { listing: kept.length > 0 ? Object.fromEntries(kept) : undefined, dropped };
}
