import type { JsonObject } from '@toolfleet/client';

/** Longest `name_prefix` of a document, without its last character. */
const MAX_PREFIX = 39;

/** Whether the text is a URL and not a document. */
export const isAddress = (place: string): boolean => /^https?:\/\/\S+$/i.test(place.trim());

/** The place as the API takes it. */
export const toPlace = (place: string): { url: string } | { document: string } =>
  isAddress(place) ? { url: place.trim() } : { document: place };

/** A name for a source: its host without `www`, `api`, `mcp` and the top-level domain, or the title of a document; may be empty. */
export function suggestName(place: string): string {
  const { hostname } = isAddress(place) && URL.canParse(place.trim()) ? new URL(place.trim()) : { hostname: '' };
  const labels = /^[\d.]*$|^\[|^localhost$/.test(hostname) ? [] : hostname.split('.');
  const telling = labels.filter((label) => !/^(www|api|mcp)$/.test(label));
  const title = /^\s*["']?title["']?\s*:\s*["']?([^"'\n]+)/m.exec(isAddress(place) ? '' : place)?.[1] ?? '';
  return (telling.at(-2) ?? telling[0] ?? title)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
    .slice(0, MAX_PREFIX);
}

/** The body of a registration. */
export function toRegistration(
  place: string,
  kind: 'openapi' | 'mcp',
  { name, prefix, credential }: { name: string; prefix: string; credential: string },
): JsonObject & { name: string } {
  const said = { name: name.trim() };
  const start = prefix.trim();
  const address = kind === 'mcp' ? 'url' : 'spec_url';
  const body: JsonObject & { name: string } = isAddress(place)
    ? { ...said, [address]: place.trim() }
    : { ...said, spec_inline: place };
  if (kind === 'mcp') body['prefix'] = start;
  else body['name_prefix'] = start === '' ? '' : `${start.slice(0, MAX_PREFIX)}_`;
  if (credential.trim() !== '')
    body[kind === 'mcp' ? 'headers' : 'extra_headers'] = { Authorization: credential.trim() };
  return body;
}
