import type { ResultFile } from '@toolfleet/contracts/result-files';
import type { FastifyReply } from 'fastify';

/**
 * Answers with a file to be saved (RFC 6266). Its content and type come from a tool: the headers keep a browser from showing it
 * as a page of this origin.
 */
export function sendFile(reply: FastifyReply, { name, contentType, bytes }: ResultFile): FastifyReply {
  const ascii = name.replaceAll(/[^\x20-\x7e]/g, '_');
  const encoded = ascii === name ? '' : `; filename*=UTF-8''${encodeURIComponent(name)}`;
  return reply
    .headers({
      'Content-Type': contentType,
      'Content-Disposition': `attachment; filename="${ascii}"${encoded}`,
      'Content-Security-Policy': "sandbox; default-src 'none'",
      'X-Content-Type-Options': 'nosniff',
      'Cache-Control': 'private, no-store',
    })
    .send(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
}
