import type { JsonObject } from '@toolfleet/base';
import type { BodyKind } from '../plan.js';

/** Type and subtype in lower case, without parameters. */
function essence(mediaType: string): string {
  return (mediaType.split(';')[0] ?? '').trim().toLowerCase();
}

/** True for JSON and every `+json`. */
export function isJsonType(mediaType: string): boolean {
  return /^[^/]+\/(?:json|[^/]*\+json)$/.test(essence(mediaType));
}

/** The kind of body for a media type. A wildcard counts as JSON unless its family is binary. */
export function bodyKind(mediaType: string): BodyKind {
  const type = essence(mediaType);
  if (isJsonType(type) || type === '*/*' || type === 'application/*') return 'json';
  if (type === 'application/x-www-form-urlencoded') return 'form';
  if (type.startsWith('multipart/')) return 'multipart';
  if (/^(?:application|text)\/xml$|\+xml$/.test(type)) return 'xml';
  return type.startsWith('text/') || TEXT_TYPES.has(type) ? 'text' : 'binary';
}

/** Types outside `text/` with text content. */
const TEXT_TYPES: ReadonlySet<string> = new Set([
  'application/graphql',
  'application/javascript',
  'application/jsonl',
  'application/jwt',
  'application/ld+ndjson',
  'application/ndjson',
  'application/sparql-query',
  'application/sql',
  'application/toml',
  'application/x-ndjson',
  'application/x-yaml',
  'application/yaml',
]);

const PREFERENCE: readonly ((type: string) => boolean)[] = [
  (type) => type === 'application/json',
  isJsonType,
  (type) => type === 'application/x-www-form-urlencoded',
  (type) => type.startsWith('multipart/'),
];

/** The media type a tool sends when several are declared: JSON, other JSON, urlencoded, multipart, the first declared. */
export function preferredType(content: JsonObject): string | undefined {
  const types = Object.keys(content);
  for (const wanted of PREFERENCE) {
    const found = types.find((type) => wanted(essence(type)));
    if (found !== undefined) return found;
  }
  return types[0];
}

/** A `Content-Type` that may be sent: wildcards and nonsense get the type their kind implies. */
export function sendableType(mediaType: string, kind: BodyKind): string {
  // oxlint-disable-next-line no-control-regex -- characters allowed in a header value
  if (!mediaType.includes('*') && /^[^\s/;]+\/[^\s/;]+/.test(mediaType) && !/[^\u0020-\u007E]/.test(mediaType)) {
    return mediaType.trim();
  }
  return (
    { json: 'application/json', text: 'text/plain', multipart: 'multipart/form-data', xml: 'application/xml' }[
      kind as string
    ] ?? 'application/octet-stream'
  );
}
