import { isUtf8 } from 'node:buffer';
import { ToolError, type Json } from '@toolfleet/contracts';
import { inexactNumber, inexactNumberMessage, isNestedTooDeep, MAX_BODY_DEPTH } from '@toolfleet/contracts/json-text';
import type { FastifyInstance } from 'fastify';

/** `application/json`, with parameters, and its relatives such as `application/vnd.api+json`. */
const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Request bodies are JSON and nothing else; what is refused is told by its real name. Keys such as `__proto__` are data,
 * as on the NATS and MCP doors: JSON.parse makes them own properties, and tools refuse what they do not declare.
 */
export function acceptJsonBodies(fastify: FastifyInstance, maxBodyBytes: number): void {
  const options = { parseAs: 'buffer', bodyLimit: maxBodyBytes } as const;
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser(JSON_TYPE, options, async (_request: unknown, body: Buffer) => readJson(body));
  fastify.addContentTypeParser(
    '*',
    options,
    async (request: { headers: { 'content-type'?: string } }, body: Buffer) => {
      if (body.length === 0) return undefined;
      const sent = request.headers['content-type'];
      throw invalid(`Content-Type must be application/json${sent === undefined ? '' : `, not '${sent}'`}`);
    },
  );
}

/** @throws ToolError REQUEST_INVALID; undefined for an empty body */
export function readJson(body: Buffer): Json | undefined {
  if (body.length === 0) return undefined;
  // Otherwise unreadable bytes would become U+FFFD, and the tool would get another text than the caller sent.
  if (!isUtf8(body)) throw invalid('The request body is not UTF-8');
  const start = body.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0;
  const text = body.toString('utf8', start);
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    throw invalid(`The request body is not JSON: ${(error as Error).message}`);
  }
  if (isNestedTooDeep(value, body.length))
    throw invalid(`The request body is nested deeper than ${MAX_BODY_DEPTH} levels`);
  const inexact = inexactNumber(text);
  if (inexact !== undefined) throw invalid(inexactNumberMessage(inexact));
  return value;
}

const invalid = (message: string): ToolError => new ToolError('REQUEST_INVALID', { message });
