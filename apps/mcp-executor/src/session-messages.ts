/** Changes to the messages of a session between the SDK's client and its transport. */
import {
  ProtocolError,
  ProtocolErrorCode,
  type Client,
  type ClientOptions,
  type PriorDiscovery,
  type RequestId,
  type Transport,
} from '@modelcontextprotocol/client';
import { isJsonObject, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { McpRevision } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import type { RequestExchange } from './exchange.js';
import { classifyMcpError } from './mcp-error.js';
import type { McpTarget } from './mcp-target.js';
import { readOpening, readSent } from './readable.js';
import { asInputRequired } from './server-task.js';
import { intercept } from './traffic.js';

/** A pinned revision is used without asking the server whether it speaks a newer one. */
export function negotiation({ revision, stdio, startMs }: McpTarget): Partial<ClientOptions> {
  // `answerDiscover` gives up over HTTP; the SDK asks a local process on another transport.
  if (revision === undefined)
    return { versionNegotiation: { mode: 'auto', probe: stdio ? { timeoutMs: startMs } : {} } };
  if (isModern(revision)) return { versionNegotiation: { mode: { pin: revision } } };
  return { versionNegotiation: { mode: 'legacy' }, supportedProtocolVersions: [revision] };
}

const isModern = (revision: McpRevision): boolean => revision >= '2026-07-28';

/** A pin overrides an earlier session's revision. */
export function readPrior({ prior, revision }: McpTarget): PriorDiscovery | undefined {
  const kind = prior?.['kind'];
  if (revision !== undefined && kind !== (isModern(revision) ? 'modern' : 'legacy')) return undefined;
  if (kind === 'modern' && isJsonObject(prior?.['discover'])) return prior as unknown as PriorDiscovery;
  return kind === 'legacy' ? { kind } : undefined;
}

/**
 * Passes questions of servers of the 2025 revisions on to the call of their stream: the SDK handles a message in the context
 * of the request of its response. A question on the stream of the session is asked to the caller of the only call that may ask on it. If
 * there are several such calls, or none, it belongs to no call and is refused.
 */
export function relayQuestions(
  transport: Transport,
  client: Client,
  declared: JsonObject | undefined,
  findCall: () => RequestExchange | undefined,
): void {
  intercept(transport, 'onmessage', (message) => {
    if ('method' in message) Object.assign(message, readSent(message));
    const call = findCall();
    if (call && 'method' in message && message.method === 'elicitation/create') call.isAskedInVain = true;
  });
  // Servers pass this text on to callers; "Method not found", the SDK's, reads like a fault of the tool.
  client.fallbackRequestHandler = ({ method }) => {
    const message = `The MCP server asked for ${method}, which the fleet does not do for servers`;
    return Promise.reject(new ProtocolError(ProtocolErrorCode.MethodNotFound, message));
  };
  if (!declared) return;
  client.setRequestHandler('elicitation/create', ({ params }, { mcpReq }) => {
    const exchange = findCall();
    if (!exchange?.asker) throw new ProtocolError(ProtocolErrorCode.InvalidRequest, 'The question belongs to no call');
    exchange.isAskedInVain = false;
    return exchange.asker.ask(params as unknown as JsonObject, mcpReq.signal);
  });
}

/** Requests with results that the SDK reads before there is a session. */
const OPENING: ReadonlySet<string> = new Set(['initialize', 'server/discover']);
/** Members that 2026-07-28 requires of results. The SDK rejects results that lack them, or in which they are null. */
const OMITTED = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };

const RESULT_TYPES: ReadonlySet<unknown> = new Set(['complete', 'input_required', 'task']);

/**
 * Adds members to results that servers written for earlier revisions omit, with the meaning that earlier revisions give to its absence: the
 * result is complete, and must not be reused. Results that open a session are mended here, because the SDK reads these itself.
 */
export function fillOmitted(transport: Transport, client: Client): void {
  const opening = new Map<RequestId, string>();
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if ('id' in message && 'method' in message && OPENING.has(message.method)) opening.set(message.id, message.method);
    return send(message, options);
  };
  intercept(transport, 'onmessage', (message) => {
    if (!('result' in message)) return;
    const method = opening.get(message.id);
    if (method !== undefined) message.result = readOpening(method, message.result as JsonObject);
    if (client.getProtocolEra() === 'legacy') return;
    const given = Object.fromEntries(Object.entries(message.result).filter(([, value]) => value !== null));
    // A result of a new type is read as far as it has the content of a result.
    if (given['content'] !== undefined && !RESULT_TYPES.has(given['resultType'])) delete given['resultType'];
    message.result = asInputRequired({ ...OMITTED, ...given });
  });
}

/**
 * Answers `server/discover` in place of a server with an answer that cannot be read or does not arrive, as servers without the method do: the SDK
 * then sends `initialize`.
 * @param withinMs time in which a server says whether it speaks a revision of 2026
 * @returns lines about it
 */
export function answerDiscover(transport: Transport, withinMs: Milliseconds, clock: Clock): string[] {
  const notes: string[] = [];
  const send = transport.send.bind(transport);
  let cancel = (): void => undefined;
  transport.send = async (message, options) => {
    if (!('method' in message && 'id' in message && message.method === 'server/discover'))
      return send(message, options);
    const stop = new AbortController();
    let isOpen = true;
    const giveUp = (reason: string): void => {
      if (!isOpen) return;
      cancel();
      notes.push(`server/discover ${reason}; initialize was used. Set protocol_version to skip this request`);
      const error = { code: ProtocolErrorCode.MethodNotFound, message: 'Method not found' };
      transport.onmessage?.({ jsonrpc: '2.0', id: message.id, error });
      stop.abort();
    };
    const cancelTimer = clock.after(withinMs, () => giveUp(`was not answered within ${withinMs / 1_000} s`));
    cancel = () => {
      isOpen = false;
      cancelTimer();
    };
    const onRequestStreamEnd = () => giveUp('was answered with an empty stream');
    try {
      await send(message, { ...options, requestSignal: stop.signal, onRequestStreamEnd });
    } catch (error) {
      const { code, message: reason, facts } = classifyMcpError(error, 'server').error;
      // Other statuses are known to the SDK. A server that cannot be reached, or wants a credential, does not answer `initialize` either.
      const isUnknown = facts?.status === undefined ? code === 'UPSTREAM_ERROR' : facts.status >= 500;
      if (isOpen && !isUnknown) throw error;
      giveUp(`was not answered with MCP (${reason.slice(0, 100)})`);
    }
  };
  intercept(transport, 'onmessage', (message) => 'method' in message || cancel());
  return notes;
}

/** @returns a function that finds the only request of a transport without an answer */
export function onlyOpenRequest(transport: Transport): () => RequestId | undefined {
  const open = new Set<RequestId>();
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if ('method' in message && 'id' in message) open.add(message.id);
    return send(message, options);
  };
  intercept(transport, 'onmessage', (message) => {
    if (!('method' in message) && message.id !== undefined) open.delete(message.id);
  });
  return () => only(open);
}

/** The member of a set with one member. */
export function only<T>(set: ReadonlySet<T>): T | undefined {
  const [first] = set;
  return set.size === 1 ? first : undefined;
}
