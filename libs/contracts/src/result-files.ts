import type { ContentBlock } from './call.js';
import type { CallBody } from './resources/calls.js';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base/json';

/** A part of a result as a file. `name` has no folder and is safe as the name of a file; `contentType` has its charset. */
export interface ResultFile {
  name: string;
  contentType: string;
  bytes: Uint8Array;
}

/** Sources of the files of a result. */
type FileSource = Pick<CallBody, 'text' | 'metadata' | 'content'> & {
  /** JSON, of whatever type a client's tools declare. */
  output: unknown;
};

/**
 * The output of a finished call as a file: the bytes of binary output (`content_base64` of an OpenAPI operation, `content` of
 * `file_read` with base64), text in the type of its upstream, anything else as indented JSON. A call without an output gives
 * its text.
 * @param stem name without extension, such as the tool's
 */
export function toOutputFile({ output, text, metadata }: Omit<FileSource, 'content'>, stem: string): ResultFile {
  if (output === null) return toTextFile({ stem }, 'text/plain', text);
  if (typeof output === 'string') return toTextFile({ stem }, textType(metadata['content_type']), output);
  const binary = isJsonObject(output) ? readBinary(output) : undefined;
  if (binary) return toBinaryFile({ own: binary.name, stem }, binary.type, binary.bytes);
  return toTextFile({ stem }, 'application/json', `${JSON.stringify(output, null, 2)}\n`);
}

/** A content block as a file; undefined for a link, and for a block without readable content. */
export function toContentFile(block: ContentBlock, stem: string): ResultFile | undefined {
  const resource = isJsonObject(block['resource']) ? block['resource'] : undefined;
  const { mimeType, uri } = resource ?? block;
  const name = { own: typeof uri === 'string' ? lastSegment(uri) : undefined, stem };
  const text = resource ? resource['text'] : block['type'] === 'text' ? block['text'] : undefined;
  if (typeof text === 'string') return toTextFile(name, textType(mimeType), text);
  const bytes = decodeBase64(resource ? resource['blob'] : block['data']);
  return bytes && toBinaryFile(name, plainType(mimeType) ?? 'application/octet-stream', bytes);
}

/**
 * The pictures, sounds and embedded resources of a result, in their order. Text blocks repeat the text of the result, and links
 * have no content. Without any, binary output is the only file.
 */
export function toAttachments(source: FileSource, stem: string): ResultFile[] {
  const blocks = (source.content ?? []).filter((block) => block['type'] !== 'text');
  const files = blocks.flatMap((block, index) => {
    const file = toContentFile(block, blocks.length > 1 ? `${stem}-${index + 1}` : stem);
    return file ? [file] : [];
  });
  const { output } = source;
  if (files.length > 0 || !isJsonObject(output) || !readBinary(output)) return files;
  return [toOutputFile(source, stem)];
}

/** A name that the source gives, and one for a source without. */
interface NameSource {
  own?: string | undefined;
  stem: string;
}

function toTextFile(name: NameSource, type: string, text: string): ResultFile {
  const bytes = new TextEncoder().encode(text);
  return { name: fileName(name, type), contentType: `${type}; charset=utf-8`, bytes };
}

function toBinaryFile(name: NameSource, contentType: string, bytes: Uint8Array): ResultFile {
  return { name: fileName(name, contentType), contentType, bytes };
}

/** Binary output of the tools of this fleet. */
function readBinary(output: JsonObject): { name?: string; type: string; bytes: Uint8Array } | undefined {
  const { content_base64: encoded, content_type: type, content, encoding, path } = output;
  const bytes = decodeBase64(encoding === 'base64' ? content : encoded);
  if (!bytes) return undefined;
  const name = encoding === 'base64' && typeof path === 'string' ? lastSegment(path) : undefined;
  return { name, type: plainType(type) ?? 'application/octet-stream', bytes };
}

/** The bytes of base64 or base64url; undefined for anything else. */
function decodeBase64(value: Json | undefined): Uint8Array | undefined {
  if (typeof value !== 'string') return undefined;
  try {
    // `atob` and not `Buffer`: the web console also uses this code.
    const binary = atob(value.replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = new Uint8Array(binary.length);
    for (let at = 0; at < bytes.length; at += 1) bytes[at] = binary.charCodeAt(at);
    return bytes;
  } catch {
    return undefined;
  }
}

/** A media type without parameters (RFC 9110 section 8.3.1); undefined for text of any other form, forbidden in headers. */
function plainType(value: Json | undefined): string | undefined {
  const type = typeof value === 'string' ? value.split(';', 1)[0]!.trim().toLowerCase() : '';
  return /^[\w.+-]{1,60}\/[\w.+-]{1,120}$/.test(type) ? type : undefined;
}

/** The type of a text without one. */
function textType(value: Json | undefined): string {
  return plainType(value) ?? 'text/plain';
}

const LONGEST_NAME = 100;

/** The decoded last segment of a URI or path as a file name; empty when there is none. */
function lastSegment(uri: string): string {
  const path = uri.replace(/[?#].*$/s, '').replace(/^[a-z][\w+.-]*:\/\/[^/]*/i, '');
  const segment = path.slice(path.lastIndexOf('/') + 1);
  try {
    return safeName(decodeURIComponent(segment));
  } catch {
    return safeName(segment);
  }
}

/** Letters, digits, dots, dashes and underscores; never hidden, never a folder. */
function safeName(name: string): string {
  return name
    .replaceAll(/[^\p{L}\p{N}._-]+/gu, '_')
    .replace(/^[._-]+/, '')
    .slice(-LONGEST_NAME);
}

/** The name that the source gives if it has an extension; else a name with the extension of the type. */
function fileName({ own, stem }: NameSource, type: string): string {
  if (own && /\.[A-Za-z0-9]{1,8}$/.test(own)) return own;
  return `${own || safeName(stem.replaceAll('.', '_')) || 'result'}.${extension(type)}`;
}

/** Extensions that are not the subtype itself. */
const EXTENSIONS: Readonly<Record<string, string>> = {
  'text/plain': 'txt',
  'text/markdown': 'md',
  'text/javascript': 'js',
  'image/jpeg': 'jpg',
  'image/svg+xml': 'svg',
  'audio/mpeg': 'mp3',
  'audio/x-wav': 'wav',
  'application/gzip': 'gz',
  'application/octet-stream': 'bin',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/vnd.openxmlformats-officedocument.presentationml.presentation': 'pptx',
};

function extension(type: string): string {
  const known = EXTENSIONS[type];
  if (known) return known;
  const subtype = type.slice(type.indexOf('/') + 1).replace(/^.*\+/, '');
  return /^[a-z0-9]{1,8}$/.test(subtype) ? subtype : 'bin';
}
