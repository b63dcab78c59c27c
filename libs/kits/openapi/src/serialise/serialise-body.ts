import { randomUUID } from 'node:crypto';
import { isJsonObject, CodedError, type Json, type JsonObject } from '@toolfleet/base';
import { toExactJson } from '@toolfleet/base/json-text';
import type { BodyPlan, PropertyEncoding } from '../plan.js';
import { queryPairs, toText } from './serialise-parameter.js';

/** A body ready to be sent. */
interface BuiltBody {
  contentType: string;
  bytes: Uint8Array | string;
}

/** Writes the `body` argument as the planned media type. */
export function serialiseBody(plan: BodyPlan, value: Json): BuiltBody {
  switch (plan.kind) {
    case 'json':
      return { contentType: plan.content_type, bytes: toExactJson(value) };
    case 'form':
      // A document may declare a form as a string: then it is the encoded form itself.
      return { contentType: plan.content_type, bytes: isJsonObject(value) ? formText(plan, value) : toText(value) };
    case 'multipart':
      // A body that is not an object has no names for its parts.
      return encodeMultipart(multipartParts(plan, isJsonObject(value) ? value : { body: value }), plan.content_type);
    case 'xml':
      return {
        contentType: plan.content_type,
        bytes: typeof value === 'string' ? value : toXml(plan.root ?? 'root', value),
      };
    case 'text':
      return { contentType: plan.content_type, bytes: toText(value) };
    case 'binary':
      return binaryBody(plan, value);
  }
}

/** application/x-www-form-urlencoded: `form`, exploded; an object is JSON unless an encoding styles it. */
export function formText(plan: Pick<BodyPlan, 'encoding'>, body: JsonObject): string {
  const pairs: [string, string][] = [];
  for (const [name, value] of Object.entries(body)) {
    const encoding = readEncoding(plan, name);
    const styled =
      encoding.style !== undefined || encoding.explode !== undefined || encoding.allow_reserved !== undefined;
    const style = encoding.style ?? 'form';
    const json = !styled && (isJsonObject(value) || (value !== null && isJson(encoding.content_type)));
    pairs.push(
      ...queryPairs(name, json ? toExactJson(value) : value, {
        style,
        explode: encoding.explode ?? style === 'form',
        allow_reserved: encoding.allow_reserved,
      }),
    );
  }
  return pairs.map(([name, value]) => `${name}=${value}`).join('&');
}

function multipartParts(plan: BodyPlan, body: JsonObject): Part[] {
  return Object.entries(body).flatMap(([name, value]) => {
    const encoding = readEncoding(plan, name);
    const items = Array.isArray(value) && !isJson(encoding.content_type) ? value : [value];
    return items.map((item) => toPart(plan, name, item, encoding));
  });
}

function toPart(plan: BodyPlan, name: string, value: Json, encoding: PropertyEncoding): Part {
  const declared = firstConcrete(encoding.content_type);
  if (isJsonObject(value) && typeof value.content_base64 === 'string' && (plan.files?.includes(name) ?? false)) {
    return {
      name,
      content: base64Bytes(value.content_base64, `body.${name}.content_base64`),
      filename: typeof value.filename === 'string' ? value.filename : name,
      contentType:
        typeof value.content_type === 'string' ? value.content_type : (declared ?? 'application/octet-stream'),
    };
  }
  if (plan.files?.includes(name) && typeof value === 'string') {
    const contentType = declared ?? 'application/octet-stream';
    return { name, content: base64Bytes(value, `body.${name}`), filename: name, contentType };
  }
  if (typeof value === 'object' && value !== null) {
    return { name, content: toExactJson(value), contentType: declared ?? 'application/json' };
  }
  return { name, content: isJson(declared) ? toExactJson(value) : toText(value), contentType: declared };
}

function binaryBody(plan: BodyPlan, value: Json): BuiltBody {
  if (isJsonObject(value) && typeof value.content_base64 === 'string') {
    const contentType = typeof value.content_type === 'string' ? value.content_type : plan.content_type;
    return { contentType, bytes: base64Bytes(value.content_base64, 'body.content_base64') };
  }
  if (typeof value !== 'string') return { contentType: plan.content_type, bytes: toExactJson(value) };
  return { contentType: plan.content_type, bytes: base64Bytes(value, 'body') };
}

function readEncoding(plan: Pick<BodyPlan, 'encoding'>, name: string): PropertyEncoding {
  return plan.encoding && Object.hasOwn(plan.encoding, name) ? (plan.encoding[name] as PropertyEncoding) : {};
}

/** An encoding may list several types or wildcards: the first one that can be sent. */
function firstConcrete(contentType: string | undefined): string | undefined {
  return contentType
    ?.split(',')
    .map((type) => type.trim())
    .find((type) => type !== '' && !type.includes('*'));
}

function isJson(contentType: string | undefined): boolean {
  return contentType !== undefined && /^[^;,]*[/+]json\b/i.test(contentType.trim());
}

/** Base64 or base64url, padded or not; anything else is refused rather than silently shortened. */
function base64Bytes(text: string, argument: string): Uint8Array {
  const compact = text.replace(/^data:[^,]*;base64,/, '').replace(/\s+/g, '');
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(compact)) {
    throw new CodedError('ARGUMENTS_INVALID', {
      message: `${argument} has to be base64`,
      details: { argument, reason: 'BASE64_INVALID' },
    });
  }
  return Buffer.from(compact, 'base64');
}

/** One part of a multipart body. */
interface Part {
  name: string;
  content: string | Uint8Array;
  contentType?: string;
  filename?: string;
}

/** Writes a multipart body (RFC 2046, RFC 7578) under a fresh boundary. */
function encodeMultipart(
  parts: readonly Part[],
  mediaType: string,
  boundary = `tf-${randomUUID()}`,
): { contentType: string; bytes: Uint8Array } {
  const form = /^multipart\/form-data\b/i.test(mediaType);
  const chunks: Buffer[] = [];
  for (const part of parts) {
    const lines = [`--${boundary}`];
    if (form || part.filename !== undefined) lines.push(disposition(part, form));
    if (part.contentType) lines.push(`Content-Type: ${part.contentType.replace(/[\r\n]+/g, ' ')}`);
    chunks.push(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), Buffer.from(part.content as string), Buffer.from('\r\n'));
  }
  chunks.push(Buffer.from(`--${boundary}--\r\n`));
  const type = mediaType.replace(/;\s*boundary=[^;]*/i, '');
  return { contentType: `${type}; boundary=${boundary}`, bytes: Buffer.concat(chunks) };
}

function disposition(part: Part, form: boolean): string {
  const filename = part.filename === undefined ? '' : `; filename="${quoted(part.filename)}"`;
  return form
    ? `Content-Disposition: form-data; name="${quoted(part.name)}"${filename}`
    : `Content-Disposition: attachment; name="${quoted(part.name)}"${filename}`;
}

/** Escapes of the HTML standard (multipart/form-data encoding algorithm): a name cannot leave its quotes or its line. */
function quoted(text: string): string {
  return text.replaceAll('\r', '%0D').replaceAll('\n', '%0A').replaceAll('"', '%22');
}

/**
 * Plain XML of a JSON value: a member becomes an element, an array repeats it. Names and wrappers of the document's
 * `xml` hints are not applied; a caller who needs them sends the XML text itself as `body`.
 */
function toXml(root: string, value: Json): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${element(elementName(root), value)}`;
}

function element(name: string, value: Json): string {
  if (Array.isArray(value)) return value.map((item) => element(name, item)).join('');
  if (value === null) return `<${name}/>`;
  if (!isJsonObject(value)) return `<${name}>${escaped(String(value))}</${name}>`;
  const members = Object.entries(value).map(([member, item]) => element(elementName(member), item));
  return `<${name}>${members.join('')}</${name}>`;
}

/** Characters that are legal in an XML name; the rest becomes `_`. */
function elementName(name: string): string {
  const legal = name.replace(/[^\p{L}\p{N}._:-]/gu, '_');
  return /^[\p{L}_]/u.test(legal) ? legal : `_${legal}`;
}

function escaped(text: string): string {
  return (
    text
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      // oxlint-disable-next-line no-control-regex -- XML 1.0 forbids them in any spelling
      .replace(/[\u0000-\u0008\u000B\u000C\u000E-\u001F]/g, '')
  );
}
