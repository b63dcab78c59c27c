import { jsonObject, ToolError, type JsonObject } from '@toolfleet/contracts';
import { text } from '@toolfleet/contracts/json-schema';
import type { BuiltinMetadata } from '../builtin-tool.js';
import { globMatcher, type GlobMatcher } from './file-matching.js';
import type { Entry } from './workspace-store.js';

/** Metadata that all file tools share. `project_id` comes from the context and is not visible to the model. */
export const FILE_TOOL = {
  category: 'file',
  tags: ['files', 'workspace'],
  toolset: 'files',
  sessionAware: true,
  contextKeys: ['project_id'],
  timeoutSeconds: 15,
  rateLimit: 300,
} satisfies Partial<BuiltinMetadata>;

/** Metadata that the file tools share that only read. Nothing is cached: another call may change a file at any time. */
export const READING_TOOL = {
  ...FILE_TOOL,
  annotations: { readOnlyHint: true, destructiveHint: false, openWorldHint: false },
  idempotent: true,
  cacheTtlSeconds: 0,
} satisfies Partial<BuiltinMetadata>;

/** The `path` argument. */
export const toPath = (description: string) => text(description, { minLength: 1, maxLength: 1_024 });
export const PATH = toPath('Path inside the workspace, e.g. "src/main.py"; no absolute paths, no ".."');

/** An entry as tools return it. */
export function toEntryOutput(entry: Entry): JsonObject {
  return jsonObject({
    path: entry.names.join('/'),
    type: entry.type,
    size: entry.type === 'file' ? entry.size : undefined,
    modified: new Date(entry.modifiedAt).toISOString(),
  });
}

/** Encodings for writing a file. Reading also supports all labels of the WHATWG Encoding Standard. */
export const WRITABLE = ['utf-8', 'utf-16le', 'latin1', 'ascii', 'base64', 'hex'] as const;
export type Writable = (typeof WRITABLE)[number];

/** Encodes a text. @throws ToolError if the encoding cannot represent it, since replaced characters would corrupt it silently */
export function encodeText(content: string, encoding: Writable): Buffer {
  const bytes = Buffer.from(content, encoding);
  if (encoding === 'base64' ? !isBase64(content) : bytes.toString(encoding) !== normalize(content, encoding)) {
    throw new ToolError('TOOL_ERROR', { message: `The content cannot be written as ${encoding}` });
  }
  return bytes;
}

/** Decodes bytes. @throws ToolError if they are not in that encoding, with encodings to try */
export function decodeText(bytes: Uint8Array, encoding: string): string {
  const label = encoding.toLowerCase();
  if (label === 'base64' || label === 'hex') return Buffer.from(bytes).toString(label);
  try {
    return new TextDecoder(label, { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof RangeError)
      throw new ToolError('TOOL_ERROR', { message: `Unknown encoding ${JSON.stringify(encoding)}` });
    throw new ToolError('TOOL_ERROR', {
      message: `The file is not ${encoding} text; read it with encoding "latin1" or "base64"`,
      details: { reason: 'encoding' },
    });
  }
}

function isBase64(content: string): boolean {
  return /^[A-Za-z0-9+/]*={0,2}$/.test(content) && content.length % 4 === 0;
}

function normalize(content: string, encoding: Writable): string {
  return encoding === 'hex' ? content.toLowerCase() : content;
}

/** Compiles a glob pattern. @throws ToolError if it is invalid */
export function compileGlob(pattern: string): GlobMatcher {
  try {
    return globMatcher(pattern);
  } catch (error) {
    throw new ToolError('TOOL_ERROR', { message: `Invalid pattern: ${(error as Error).message}` });
  }
}
