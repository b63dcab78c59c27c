import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { ToolError, type Json, isJsonObject, type JsonObject } from '@toolfleet/contracts';
import { inexactNumber, inexactNumberMessage, isNestedTooDeep, MAX_BODY_DEPTH } from '@toolfleet/contracts/json-text';
import type { FastifyInstance } from 'fastify';
import { getMetadataStorage, validateSync, type ValidationError } from 'class-validator';
import { rejectUnknownFields } from '@toolfleet/contracts/call-fields';
import type { Clock } from '@toolfleet/resilience';

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

/**
 * Reads a request body or query into its DTO class: unknown fields are refused (mass assignment), declared ones checked
 * by class-validator. Shallow: `arguments` stays the parsed JSON, untouched. Nest's stock ValidationPipe would walk the
 * whole tree. Built once per class.
 */
export function readerFor<T extends object>(Dto: new () => T): (body: unknown) => T {
  // A Set, not class-validator's `whitelist`: that lets an own "__proto__" key pass (its table is a plain object).
  const declared = new Set(
    getMetadataStorage()
      .getTargetValidationMetadatas(Dto, '', false, false)
      .map((metadata) => metadata.propertyName),
  );
  return (body) => {
    const source = bodyObject(body);
    rejectUnknownFields(Object.keys(source).filter((key) => !declared.has(key)));
    const dto = Object.assign(new Dto(), source);
    const faults = validateSync(dto);
    if (faults.length > 0) throw invalidFields(faults);
    return dto;
  };
}

/** @throws ToolError REQUEST_INVALID unless the body is a JSON object */
export function bodyObject(body: unknown): JsonObject {
  if (isJsonObject(body)) return body;
  throw new ToolError('REQUEST_INVALID', { message: 'The request body must be a JSON object' });
}

function invalidFields(faults: ValidationError[]): ToolError {
  const fields = faults.map((fault) => fault.property);
  const reasons = faults.flatMap((fault) => Object.values(fault.constraints ?? {}));
  return new ToolError('REQUEST_INVALID', {
    message: `Invalid request: ${reasons.join('; ')}`,
    details: { fields, reasons },
  });
}

/** How long the connection of a body that is refused stays open. */
const LINGER_MS = 2_000;
/** Node discards the rest of a small body after the answer; the connection stays usable. */
const SMALL_BYTES = 64 * 1024;

/** Whether a request has a body: RFC 9112 section 6.3. */
export function carriesBody({ headers }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined) return true;
  return headers['content-length'] !== undefined && headers['content-length'] !== '0';
}

/** Whether the declared length is at most 64 KiB; also true for requests without a body. */
export function isSmallBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) <= SMALL_BYTES;
}

/**
 * Leaves the rest of a large body where it is, in the buffers of the network, and closes the connection a little later: the
 * client has read its answer by then. Call it before the answer is sent; small bodies are left to Node, which drops them.
 */
export function leaveUnread(body: IncomingMessage, clock: Clock): void {
  if (isSmallBody(body)) return;
  // Node drops the whole body after the answer unless reading has begun; this reads one buffer and no more.
  body.read(0);
  const cancel = clock.after(LINGER_MS, () => body.socket.destroy());
  body.once('close', cancel);
}

/**
 * Reads and drops what a client still sends, at most for two seconds: an answer before that, followed by the end of the
 * connection, would reach the client as a broken pipe. Nothing is kept.
 */
export async function discardBody(body: IncomingMessage, clock: Clock): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(LINGER_MS, resolve);
  body.once('end', resolve).once('close', resolve).resume();
  if (!body.readableEnded && !body.destroyed) await promise;
  cancel();
}
