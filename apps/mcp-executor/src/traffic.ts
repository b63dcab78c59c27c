import { SdkHttpError, type JSONRPCMessage, type Transport } from '@modelcontextprotocol/client';
import { InFlightMap, onAbort, type Clock } from '@toolfleet/resilience';
import {
  ATTR,
  BoundedLabel,
  describeMessage,
  EXECUTE_TOOL,
  knownRevision,
  LABEL,
  messageAttributes,
  openClientSpan,
  serverAddress,
  TOOL_ERROR,
  traceHeaders,
  type Metrics,
  type SpanFailure,
} from '@toolfleet/telemetry';
import { RequestExchange } from './exchange.js';
import { classifyMcpError } from './mcp-error.js';

/** Most values of the label `gen_ai_tool_name`; further tools are counted as `other`. */
const MAX_TOOLS = 2_000;

/** The metrics of the traffic with servers. */
export type TrafficMetrics = Pick<Metrics, 'mcpClientDuration' | 'mcpClientSessionDuration'>;

type TrafficLabels = Partial<Record<Parameters<TrafficMetrics['mcpClientDuration']['labels']>[0] & string, string>>;
type Sent = Extract<JSONRPCMessage, { method: string }>;
/** The failure of a request, with the code of a JSON-RPC error. */
type Failure = SpanFailure & { statusCode?: string };

/** A server as labels and attributes. */
interface Peer {
  transport: 'tcp' | 'pipe';
  /** None for a local process. */
  address?: string;
  port?: number;
}

/** A connection that is watched. */
export interface WatchedConnection {
  /** Reports the revision that was negotiated. */
  negotiated(version: string | undefined): void;
  /** Reports the end of a session (servers of 2026-07-28 have none). */
  sessionEnded(): void;
}

/**
 * Traces and measures messages to MCP servers by the OpenTelemetry conventions of MCP: each request and notification is a client span
 * `{method} {tool}` and an observation of `mcp.client.operation.duration`, and propagates the trace in `_meta`, except while it opens a
 * session. The spans of the HTTP
 * requests that carry it are its children. It works on the SDK's transports, because all messages pass there, including those that the SDK
 * itself sends to open a session or to read the next page of a list.
 */
export class Traffic {
  private readonly toolLabels = new BoundedLabel(MAX_TOOLS);

  /** @param metrics without them messages are only traced */
  constructor(
    private readonly clock: Clock,
    private readonly metrics?: TrafficMetrics,
  ) {}

  /** Watches a transport from now on. @param url of the server; undefined for a local process */
  watch(transport: Transport, url: string | undefined): WatchedConnection {
    const address = url === undefined ? {} : serverAddress(url);
    const peer: Peer = { transport: url === undefined ? 'pipe' : 'tcp' };
    if (ATTR.serverAddress in address) {
      peer.address = String(address[ATTR.serverAddress]);
      peer.port = Number(address[ATTR.serverPort]);
    }
    const openedAt = this.clock.monotonic();
    let version: string | undefined;
    const open = new InFlightMap<string | number, (failure?: Failure) => void>();
    const send = transport.send.bind(transport);
    transport.send = async (message, options) => {
      if (!('method' in message)) return send(message, options);
      const { run, end } = this.begin(message, peer, () => ({ version, session: transport.sessionId }));
      const id = 'id' in message ? message.id : undefined;
      if (id !== undefined) open.set(id, end);
      const stopped = RequestExchange.active?.signal;
      if (stopped) onAbort(stopped, () => end(toFailure(stopped.reason)));
      try {
        await run(() => send(withTrace(message), options));
        if (id === undefined) end();
      } catch (error) {
        end(toFailure(error));
        throw error;
      }
    };
    intercept(transport, 'onmessage', (message) => {
      if ('method' in message || message.id === undefined) return;
      open.get(message.id)?.(readFailure(message));
      open.delete(message.id);
    });
    intercept(transport, 'onclose', () => {
      for (const end of open.values()) end({ type: 'NETWORK_ERROR', message: 'The connection was closed' });
      open.clear();
    });
    return {
      negotiated: (found) => void (version = knownRevision(found)),
      sessionEnded: () => {
        const seconds = (this.clock.monotonic() - openedAt) / 1_000;
        this.metrics?.mcpClientSessionDuration.observe(sessionLabels(peer, version), seconds);
      },
    };
  }

  /** Begins a message. `end` may be called several times; only the first call counts. */
  private begin(message: Sent, peer: Peer, state: () => { version: string | undefined; session: string | undefined }) {
    const facts = describeMessage(message);
    const startedAt = this.clock.monotonic();
    const name = facts.tool === undefined ? facts.method : `${facts.method} ${facts.tool}`;
    const span = openClientSpan(name, {});
    if (!span && !this.metrics) return { run: <T>(work: () => T): T => work(), end: () => undefined };
    let isOpen = true;
    const end = (failure?: Failure): void => {
      if (!isOpen) return;
      isOpen = false;
      const { version, session } = state();
      if (this.metrics) {
        const labels: TrafficLabels = { ...sessionLabels(peer, version), [LABEL.mcpMethod]: facts.method };
        labels[LABEL.networkTransport] = peer.transport;
        if (facts.tool !== undefined) {
          labels[LABEL.toolName] = this.toolLabels.of(facts.tool);
          labels[LABEL.operationName] = EXECUTE_TOOL;
        }
        if (failure) labels[LABEL.errorType] = failure.type;
        if (failure?.statusCode !== undefined) labels[LABEL.rpcStatusCode] = failure.statusCode;
        this.metrics.mcpClientDuration.observe(labels, (this.clock.monotonic() - startedAt) / 1_000);
      }
      span?.end(
        {
          ...messageAttributes(message, facts),
          [ATTR.toolName]: facts.tool,
          [ATTR.networkTransport]: peer.transport,
          [ATTR.networkProtocolName]: peer.transport === 'tcp' ? 'http' : undefined,
          [ATTR.serverAddress]: peer.address,
          [ATTR.serverPort]: peer.port,
          [ATTR.mcpProtocolVersion]: version,
          [ATTR.mcpSessionId]: session,
          [ATTR.rpcStatusCode]: failure?.statusCode,
        },
        failure,
      );
    };
    return { run: span ? span.run : <T>(work: () => T): T => work(), end };
  }
}

function sessionLabels(peer: Peer, version: string | undefined) {
  const labels: Partial<Record<SessionLabel, string>> = {};
  if (version !== undefined) labels[LABEL.mcpProtocolVersion] = version;
  if (peer.transport === 'tcp') labels[LABEL.networkProtocolName] = 'http';
  if (peer.address !== undefined) {
    labels[LABEL.serverAddress] = peer.address;
    labels[LABEL.serverPort] = String(peer.port);
  }
  return labels;
}

type SessionLabel = (typeof LABEL)['mcpProtocolVersion' | 'networkProtocolName' | 'serverAddress' | 'serverPort'];

/** Messages that open a session carry nothing optional: servers take an `initialize` with `_meta` for a request of 2026-07-28. */
const OPENING: ReadonlySet<string> = new Set(['initialize', 'notifications/initialized', 'server/discover']);

/** The message with the active trace in `_meta`, unprefixed (https://modelcontextprotocol.io/seps/414-request-meta). */
function withTrace<T extends Sent>(message: T): T {
  const trace = OPENING.has(message.method) ? undefined : traceHeaders();
  if (!trace) return message;
  return { ...message, params: { ...message.params, _meta: { ...message.params?._meta, ...trace } } };
}

/** Of an observer that has handled a message. */
export const TAKEN = Symbol('taken');

/** Why a response is a failure: an error of JSON-RPC, or a result that reports one of the tool. */
function readFailure(response: Exclude<JSONRPCMessage, Sent>): Failure | undefined {
  if ('error' in response) {
    const type = String(response.error.code);
    return { type, statusCode: type, message: response.error.message };
  }
  return response.result['isError'] === true ? { type: TOOL_ERROR } : undefined;
}

/** Why a message got no response: the HTTP status, or a code of the fleet's errors. */
function toFailure(error: unknown): Failure {
  if (error instanceof SdkHttpError && error.status !== undefined) return { type: String(error.status) };
  const { code, message } = classifyMcpError(error, 'server').error;
  return { type: code, message };
}

/**
 * Calls `observe` before the handler that the SDK sets, now or later, and not the handler if it returns `TAKEN`. The observer that was added
 * last is called first.
 */
export function intercept<K extends 'onmessage' | 'onclose'>(
  transport: Transport,
  event: K,
  observe: (...args: Parameters<NonNullable<Transport[K]>>) => unknown,
): void {
  type MessageHandler = (...args: Parameters<NonNullable<Transport[K]>>) => void;
  const before = Object.getOwnPropertyDescriptor(transport, event);
  let handler = before?.value as MessageHandler | undefined;
  const { get = () => handler, set = (next?: MessageHandler) => void (handler = next) } = before ?? {};
  Object.defineProperty(transport, event, {
    configurable: true,
    get: () => {
      const next = get() as MessageHandler | undefined;
      return (
        next &&
        ((...args: Parameters<MessageHandler>): void => {
          if (observe(...args) !== TAKEN) next(...args);
        })
      );
    },
    set,
  });
}
