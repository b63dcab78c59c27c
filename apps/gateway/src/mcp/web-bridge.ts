import type { IncomingMessage, ServerResponse } from 'node:http';
import { isJsonObject, type Json } from '@toolfleet/contracts';
import { drained } from '../http/connections.js';

/** Headers that describe the connection, or that the SDK must not see. */
const DROPPED = new Set([
  'connection',
  'keep-alive',
  'transfer-encoding',
  'authorization',
  'x-api-key',
  'cookie',
  'content-length',
]);

/** A JSON body, parsed once; undefined when it is none. `arguments: null` counts as no arguments. */
export function parseBody(body: Buffer | undefined): Json | undefined {
  try {
    return withObjectArguments(JSON.parse(body?.toString('utf8') ?? '') as Json);
  } catch {
    return undefined;
  }
}

/** Node's request as the SDK's web request. The credential is left out: it has done its work. */
export function webRequest(
  request: IncomingMessage,
  path: string,
  body: Buffer | undefined,
  parsed: Json | undefined,
  signal: AbortSignal,
): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    if (DROPPED.has(name) || value === undefined) continue;
    for (const item of Array.isArray(value) ? value : [value]) headers.append(name, item);
  }
  const method = request.method ?? 'GET';
  // Origin and Host are checked before: what a header says of the address decides nothing any more.
  return new Request(`http://localhost${path}`, {
    method,
    headers,
    signal,
    // What is not JSON goes on as text, for the SDK to refuse in the protocol's terms.
    ...(method === 'POST' && parsed === undefined ? { body: body?.toString('utf8') ?? '' } : {}),
  });
}

/** Writes a web response to Node's, heeding backpressure; a client that left ends the body's source. */
export async function writeWebResponse(
  response: Response,
  out: ServerResponse,
  more: Readonly<Record<string, string>> = {},
): Promise<void> {
  out.writeHead(response.status, { ...Object.fromEntries(response.headers), ...more });
  if (!response.body) return void out.end();
  const reader = response.body.getReader();
  const onClose = (): void => void reader.cancel().catch(() => undefined);
  out.once('close', onClose);
  try {
    out.flushHeaders();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || out.destroyed) break;
      if (!out.write(value)) await drained(out);
    }
  } finally {
    out.off('close', onClose);
    out.end();
  }
}

/** `arguments: null` means none; the schema of the protocol would refuse it. */
function withObjectArguments(body: Json): Json {
  if (!isJsonObject(body) || body['method'] !== 'tools/call') return body;
  const { params } = body;
  if (!isJsonObject(params) || params['arguments'] !== null) return body;
  return { ...body, params: { ...params, arguments: {} } };
}
