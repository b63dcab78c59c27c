import {
  PROTOCOL_VERSION_META_KEY,
  StreamableHTTPClientTransport,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type JSONRPCResultResponse,
  type StreamableHTTPClientTransportOptions,
} from '@modelcontextprotocol/client';
import { isJsonObject, type Json } from '@toolfleet/contracts';
import { toFetchResponse, type EgressResponse } from '@toolfleet/egress';
import { InFlight } from '@toolfleet/resilience';
import { Exchange } from './exchange.js';

type SendArguments = Parameters<StreamableHTTPClientTransport['send']>;

/** Posts the text of a message. Rejects with ToolErrors only; `signal` also stops the reading of the body. */
export type PostMessage = (
  body: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
) => Promise<EgressResponse>;

/**
 * The SDK's HTTP transport, bound to the exchange that the calling code runs in.
 *
 * A `tools/call` of the revisions before 2026 goes out as one POST, without the SDK's `fetch`, streams and schemas, and a plain JSON
 * answer is read right here. Every other answer (event streams, redirects, errors, results with more than texts and structured
 * content) is left to the SDK as if its own request had got it: nothing is sent a second time.
 */
export class ScopedHttpTransport extends StreamableHTTPClientTransport {
  private readonly fixedHeaders: Readonly<Record<string, string>>;
  private readonly posting = new InFlight<Exchange>();

  /** @param post absent where the SDK has to authorize each request */
  constructor(
    url: URL,
    options: StreamableHTTPClientTransportOptions,
    private readonly post?: PostMessage,
  ) {
    super(url, options);
    const { accept, ...given } = Object.fromEntries(new Headers(options.requestInit?.headers));
    this.fixedHeaders = {
      ...given,
      'content-type': 'application/json',
      accept: [...new Set([accept, 'application/json', 'text/event-stream'])].filter(Boolean).join(', '),
    };
  }

  override async send(...[message, options]: SendArguments): Promise<void> {
    const exchange = Exchange.active;
    if (!exchange || !isRequest(message)) return super.send(message, options);
    if (this.post && isPlainCall(message)) {
      const answer = await this.call(this.post, message, exchange);
      if (answer) return this.onmessage?.(answer);
    }
    const requestSignal = options?.requestSignal;
    const request = exchange.beginRequest();
    return super.send(message, {
      ...options,
      requestSignal: requestSignal ? AbortSignal.any([requestSignal, exchange.signal]) : exchange.signal,
      onRequestStreamEnd: () => {
        options?.onRequestStreamEnd?.();
        exchange.streamEnded(request);
      },
    });
  }

  override async close(): Promise<void> {
    for (const exchange of this.posting) exchange.connectionClosed();
    await super.close();
  }

  /** Sends a call. Resolves to its plain answer; undefined when the exchange has left another one to the SDK. */
  private async call(
    post: PostMessage,
    message: JSONRPCRequest,
    exchange: Exchange,
  ): Promise<JSONRPCResultResponse | undefined> {
    const { sessionId, protocolVersion, fixedHeaders } = this;
    const headers = {
      ...fixedHeaders,
      ...(sessionId !== undefined && { 'mcp-session-id': sessionId }),
      ...(protocolVersion !== undefined && { 'mcp-protocol-version': protocolVersion }),
    };
    const done = this.posting.add(exchange);
    try {
      const response = await post(JSON.stringify(message), headers, exchange.signal);
      if (response.status !== 200 || mediaType(response) !== 'application/json') {
        exchange.leaveToSdk(toFetchResponse(response, (error) => (exchange.streamError = error)));
        return undefined;
      }
      const text = await response.body.text();
      const answer = readPlainAnswer(text, message.id);
      if (!answer) exchange.leaveToSdk(new Response(text, { headers: { 'content-type': 'application/json' } }));
      return answer;
    } finally {
      done();
    }
  }
}

const isRequest = (message: SendArguments[0]): message is JSONRPCRequest =>
  !Array.isArray(message) && 'method' in message && 'id' in message;

/** In 2026 revisions the headers of a request repeat what its envelope says. */
const isPlainCall = ({ method, params }: JSONRPCRequest): boolean =>
  method === 'tools/call' && params?._meta?.[PROTOCOL_VERSION_META_KEY] === undefined;

function mediaType({ headers }: EgressResponse): string | undefined {
  const type = headers['content-type'];
  return typeof type === 'string' ? type.split(';', 1)[0]?.trim().toLowerCase() : undefined;
}

/** A response that has the shape that the SDK's schemas would give it; undefined for one that they should look at. */
function readPlainAnswer(text: string, id: JSONRPCRequest['id']): JSONRPCResultResponse | undefined {
  let message: Json;
  try {
    message = JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
  if (!isJsonObject(message) || message['jsonrpc'] !== '2.0' || message['id'] !== id) return undefined;
  if (Object.keys(message).length !== 3 || !isPlainResult(message['result'])) return undefined;
  return message as JSONRPCMessage as JSONRPCResultResponse;
}

/** Whether a value is a result of a tool with only plain texts and structured content, which needs no schema to be read. */
export function isPlainResult(value: unknown): boolean {
  if (!isJsonObject(value as Json)) return false;
  const { content, isError, structuredContent, ...others } = value as Record<string, Json | undefined>;
  return (
    Object.keys(others).length === 0 &&
    Array.isArray(content) &&
    content.every(isPlainText) &&
    (isError === undefined || typeof isError === 'boolean') &&
    (structuredContent === undefined || isJsonObject(structuredContent))
  );
}

const isPlainText = (block: Json): boolean =>
  isJsonObject(block) &&
  block['type'] === 'text' &&
  typeof block['text'] === 'string' &&
  Object.keys(block).length === 2;
