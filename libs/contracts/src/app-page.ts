import { hash } from 'node:crypto';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base/json';

/**
 * Key in `_meta` of a tool of the digest of the page that its MCP App shows. The page is a resource of the server of the tool; its digest is
 * pinned with the definition, so that a page that changes awaits an approval.
 */
export const PAGE_DIGEST = 'io.toolfleet/page-digest';

/** The address of the page of a tool at its server (`_meta.ui.resourceUri`, or the flat key of earlier hosts). */
export function appPage(listing: JsonObject | undefined): string | undefined {
  const meta = listing?.['_meta'];
  if (!isJsonObject(meta)) return undefined;
  const { ui, 'ui/resourceUri': flat } = meta;
  const address = isJsonObject(ui) ? (ui['resourceUri'] ?? flat) : flat;
  return typeof address === 'string' ? address : undefined;
}

/** The pinned digest of the page of a tool; undefined where pages are not pinned. */
export function pinnedPage(listing: JsonObject | undefined): string | undefined {
  const meta = listing?.['_meta'];
  const digest = isJsonObject(meta) ? meta[PAGE_DIGEST] : undefined;
  return typeof digest === 'string' ? digest : undefined;
}

/** SHA-256 of the shown parts of a page: the text, its type, and `_meta` with its content security policy. Not of its address. */
export function pageDigest(contents: Json | undefined): string {
  const parts = (Array.isArray(contents) ? contents : []).map((content) => {
    const { mimeType = null, text = null, blob = null, _meta = null } = isJsonObject(content) ? content : {};
    return [mimeType, text, blob, _meta];
  });
  return hash('sha256', JSON.stringify(parts), 'hex');
}
