import {
  PROTOCOL_VERSION_META_KEY,
  StreamableHTTPClientTransport,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type StreamableHTTPClientTransportOptions,
} from '@modelcontextprotocol/client';
import { parseExact, toExactJson, toMarked } from '@toolfleet/contracts/json-text';
import { toFetchResponse, type EgressResponse } from '@toolfleet/egress';
import { InFlight } from '@toolfleet/resilience';
import { RequestExchange } from './exchange.js';
import { mediaType, readableJson, readAnswer, toReadable } from './foreign-answer.js';

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
 * A `tools/call` of the revisions before 2026 goes out as one POST, without the SDK's `fetch` and streams, and a JSON answer is read right
 * here. Every other response (event streams, batches, redirects, HTTP errors) is left to the SDK as if its own request had got it: nothing
 * is sent a second time.
 */
export class ScopedHttpTransport extends StreamableHTTPClientTransport {
  private readonly fixedHeaders: Readonly<Record<string, string>>;
  private readonly posting = new InFlight<RequestExchange>();

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
    const exchange = RequestExchange.active;
    if (!exchange || !isRequest(message)) return super.send(toMarked(message), options);
    if (this.post && isPlainCall(message)) {
      const answer = await this.call(this.post, message, exchange);
      if (answer) return this.onmessage?.(answer);
    }
    const requestSignal = options?.requestSignal;
    const request = exchange.beginRequest();
    return super.send(toMarked(message), {
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

  /** Sends a call. Resolves to its JSON answer; undefined when the exchange has left another response to the SDK. */
  private async call(
    post: PostMessage,
    message: JSONRPCRequest,
    exchange: RequestExchange,
  ): Promise<JSONRPCMessage | undefined> {
    const { sessionId, protocolVersion, fixedHeaders } = this;
    const headers = {
      ...fixedHeaders,
      ...(sessionId !== undefined && { 'mcp-session-id': sessionId }),
      ...(protocolVersion !== undefined && { 'mcp-protocol-version': protocolVersion }),
    };
    const done = this.posting.add(exchange);
    try {
      const response = await post(toExactJson(message), headers, exchange.signal);
      if (response.status !== 200 || mediaType(response) !== 'application/json') {
        const readable = await toReadable(response, () => message.id);
        exchange.leaveToSdk(toFetchResponse(readable, (error) => (exchange.streamError = error)));
        return undefined;
      }
      const bytes = await response.body.bytes();
      const answer = readJsonAnswer(bytes.toString(), message.id);
      if (!answer) {
        const text = readableJson(bytes, () => message.id);
        exchange.leaveToSdk(new Response(text, { headers: { 'content-type': 'application/json' } }));
      }
      return answer;
    } finally {
      done();
    }
  }
}

const isRequest = (message: SendArguments[0]): message is JSONRPCRequest =>
  !Array.isArray(message) && 'method' in message && 'id' in message;

/** In 2026 revisions the headers of a request repeat its envelope. */
const isPlainCall = ({ method, params }: JSONRPCRequest): boolean =>
  method === 'tools/call' && params?._meta?.[PROTOCOL_VERSION_META_KEY] === undefined;

/** The answer in the text of a response; undefined if the SDK should look at it. */
function readJsonAnswer(text: string, id: JSONRPCRequest['id']): JSONRPCMessage | undefined {
  try {
    return readAnswer(parseExact(text).value, id, true);
  } catch {
    return undefined;
  }
}
