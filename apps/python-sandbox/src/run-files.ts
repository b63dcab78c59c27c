import type { ContentBlock, Json, JsonObject } from '@toolfleet/contracts';
import type { RunFile } from '@toolfleet/wasi-python';

/** Types by the end of a name; types in `TEXT` hold text if they are UTF-8. */
const TYPES: Readonly<Record<string, string>> = {
  csv: 'text/csv',
  tsv: 'text/tab-separated-values',
  txt: 'text/plain',
  log: 'text/plain',
  md: 'text/markdown',
  html: 'text/html',
  py: 'text/x-python',
  json: 'application/json',
  jsonl: 'application/jsonl',
  xml: 'application/xml',
  yaml: 'application/yaml',
  yml: 'application/yaml',
  svg: 'image/svg+xml',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  wav: 'audio/wav',
  pdf: 'application/pdf',
  zip: 'application/zip',
  gz: 'application/gzip',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  db: 'application/vnd.sqlite3',
  sqlite: 'application/vnd.sqlite3',
};
const TEXT = /^text\/|\+xml$|\/(?:json|jsonl|xml|yaml)$/;
const PICTURE = /^image\/(?:png|jpeg|gif|webp)$/;
/** A table has no more columns, and no longer cells. */
const MAX_COLUMNS = 20;
const MAX_CELL = 200;

function typeOf(name: string): string {
  return TYPES[/\.([^./]+)$/.exec(name)?.[1]?.toLowerCase() ?? ''] ?? 'application/octet-stream';
}

/** The entry of a file in `output.files`. */
export function fileFacts({ name, bytes }: RunFile): JsonObject {
  return { name, content_type: typeOf(name), bytes: bytes.length };
}

/** A file as a content block of MCP: a picture, or an embedded resource with text or base64. */
export function fileBlock({ name, bytes }: RunFile): ContentBlock {
  const mimeType = typeOf(name);
  const base64 = () => Buffer.from(bytes).toString('base64');
  if (PICTURE.test(mimeType)) return { type: 'image', data: base64(), mimeType };
  const uri = `file:///data/${name.split('/').map(encodeURIComponent).join('/')}`;
  const text = TEXT.test(mimeType) ? asText(bytes) : undefined;
  return {
    type: 'resource',
    resource: text === undefined ? { uri, mimeType, blob: base64() } : { uri, mimeType, text },
  };
}

function asText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** A list of flat records as a table of Markdown, in the order of the first record's members; undefined for anything else. */
export function recordTable(value: Json): string | undefined {
  if (!Array.isArray(value) || value.length < 2) return undefined;
  const rows = value.filter((row): row is JsonObject => typeof row === 'object' && row !== null && !Array.isArray(row));
  const columns = [...new Set(rows.flatMap(Object.keys))];
  if (rows.length < value.length || columns.length === 0 || columns.length > MAX_COLUMNS) return undefined;
  const cells = rows.map((row) => columns.map((name) => cell(row[name])));
  if (cells.some((row) => row.includes(undefined))) return undefined;
  const line = (parts: readonly (string | undefined)[]) => `| ${parts.join(' | ')} |`;
  return [line(columns.map(cell)), line(columns.map(() => '---')), ...cells.map(line)].join('\n');
}

/** A scalar as a cell; undefined for a value that is none, or too long. */
function cell(value: Json | undefined): string | undefined {
  if (value === undefined || value === null) return '';
  if (typeof value === 'object') return undefined;
  const text = String(value).replaceAll('|', '\\|').replaceAll(/\s+/g, ' ');
  return text.length <= MAX_CELL ? text : undefined;
}
