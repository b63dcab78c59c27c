import type { IncomingMessage, ServerResponse } from 'node:http';
import { isJsonObject, type Json } from '@toolfleet/contracts';
import { drained } from '../server/connections.js';

/** Headers of the connection, set by Node alone: an answer that kept it alive would hold it open for a client that wants its end. */
const OF_CONNECTION = ['connection', 'keep-alive', 'transfer-encoding'];
/** Also the credentials: they have served their purpose before the SDK runs. */
const DROPPED = new Set([...OF_CONNECTION, 'authorization', 'x-api-key', 'cookie', 'content-length']);

/** A JSON-RPC response that is an error. */
export interface RpcError {
  jsonrpc: '2.0';
  id: string | number | null;
  error: { code: number; message: string };
}

/** A JSON-RPC error in response to `body`. */
export function errorResponse(body: Json | undefined, code: number, message: string): RpcError {
  const id = isJsonObject(body) ? body['id'] : undefined;
  return { jsonrpc: '2.0', id: typeof id === 'string' || typeof id === 'number' ? id : null, error: { code, message } };
}

/** Node's request as the web request that the SDK takes. */
export function toWebRequest(
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
  // The SDK looks for both types by name (RFC 9110, section 12.5.1: `*/*`, or no header, accepts them).
  if (method === 'POST' && (headers.get('accept') ?? '*/*').includes('*/*'))
    headers.set('accept', 'application/json, text/event-stream');
  // Origin and Host were checked before, so the address in this URL decides nothing.
  return new Request(`http://localhost${path}`, {
    method,
    headers,
    signal,
    // A body that is not JSON is passed on as text: the SDK words the error.
    body: method === 'POST' && parsed === undefined ? (body?.toString('utf8') ?? '') : undefined,
  });
}

/** Writes a web response to Node's with backpressure; when the client disconnects, the source of the body is canceled. */
export async function writeWebResponse(
  response: Response,
  out: ServerResponse,
  moreHeaders: Readonly<Record<string, string>> = {},
): Promise<void> {
  const headers = new Headers(response.headers);
  for (const name of OF_CONNECTION) headers.delete(name);
  out.writeHead(response.status, { ...Object.fromEntries(headers), ...moreHeaders });
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

/** A body with `arguments: null` of a `tools/call` as no arguments, as its schema would refuse it. */
export function withObjectArguments(body: Json): Json {
  if (!isJsonObject(body) || body['method'] !== 'tools/call') return body;
  const { params } = body;
  if (!isJsonObject(params) || params['arguments'] !== null) return body;
  return { ...body, params: { ...params, arguments: {} } };
}
