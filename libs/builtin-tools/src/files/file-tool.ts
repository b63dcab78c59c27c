import { ToolError, type JsonObject } from '@toolfleet/contracts';
import { globMatcher, type GlobMatcher } from './file-matching.js';
import type { Entry } from './workspace-store.js';

/** What all file tools have in common: `project_id` is injected, the model never sees it. */
export const FILE_TOOL = {
  version: '1.0.0',
  category: 'file',
  tags: ['files', 'workspace'],
  toolset: 'files',
  sessionAware: true,
  contextKeys: ['project_id'],
  timeoutSeconds: 15,
  rateLimit: 300,
} satisfies Partial<import('../builtin-tool.js').ToolMetadata>;

/** The `path` argument. */
export const PATH: JsonObject = {
  type: 'string',
  minLength: 1,
  maxLength: 1_024,
  description: 'Path inside the workspace, e.g. "src/main.py"; no absolute paths, no ".."',
};

/** An entry as tools show it. */
export function shownEntry(entry: Entry): JsonObject {
  return {
    path: entry.names.join('/'),
    type: entry.type,
    ...(entry.type === 'file' ? { size: entry.size } : {}),
    modified: new Date(entry.modifiedAt).toISOString(),
  };
}

/** Encodings a file can be written in; reading knows every label of the WHATWG Encoding Standard beside them. */
export const WRITABLE = ['utf-8', 'utf-16le', 'latin1', 'ascii', 'base64', 'hex'] as const;
export type Writable = (typeof WRITABLE)[number];

/** Bytes of a text. @throws ToolError when the encoding cannot hold it: a replaced character would be silent damage */
export function encodeText(content: string, encoding: Writable): Buffer {
  const bytes = Buffer.from(content, encoding);
  if (encoding === 'base64' ? !isBase64(content) : bytes.toString(encoding) !== normalised(content, encoding)) {
    throw new ToolError('TOOL_ERROR', { message: `The content cannot be written as ${encoding}` });
  }
  return bytes;
}

/** Text of bytes. @throws ToolError when they are not in that encoding, with the encodings to try */
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

function isBase64(text: string): boolean {
  return /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.length % 4 === 0;
}

function normalised(content: string, encoding: Writable): string {
  return encoding === 'hex' ? content.toLowerCase() : content;
}

/** A matcher, or the tool's fault. */
export function compileGlob(pattern: string): GlobMatcher {
  try {
    return globMatcher(pattern);
  } catch (error) {
    throw new ToolError('TOOL_ERROR', { message: `Bad pattern: ${(error as Error).message}` });
  }
}
