import { randomUUID } from 'node:crypto';

/** One part of a multipart body. */
export interface Part {
  name: string;
  content: string | Uint8Array;
  contentType?: string;
  filename?: string;
}

/** Writes a multipart body (RFC 2046, RFC 7578) under a fresh boundary. */
export function encodeMultipart(
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
