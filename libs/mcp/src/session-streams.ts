import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { ServerEventBus } from '@modelcontextprotocol/server';
import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';
import { sessionKey, type McpSession, type RedisSessionSubscriptions } from './redis-session-subscriptions.js';
import type { ResourceSubscriptions, Subscriber } from './resource-subscriptions.js';

/** Keeps idle connections through proxies alive. */
const KEEP_ALIVE = Buffer.from(': open\n\n');
const KEEP_ALIVE_MS = 15_000;
/** How often the subscriptions of an open stream are read again: they expire, and a notice of a change may be lost. */
const REFRESH_MS = 60_000;
/** When clients connect again: SDKs try twice, so that a gateway has twice this time to restart. */
const RETRY_MS = 3_000;
/** Makes clients send `Last-Event-ID` when they connect again. */
const FIRST_EVENT = Buffer.from(`id: 0\nretry: ${RETRY_MS}\ndata: \n\n`);
const LISTS = ['tools', 'prompts', 'resources'] as const;

/** Dependencies of a stream besides its session. */
interface StreamContext {
  /** Ends the stream: the client disconnected, or its credential was revoked. */
  signal: AbortSignal;
  headers: IncomingHttpHeaders;
  bus: ServerEventBus;
  find: Subscriber['find'];
}

/** The open stream of a session. */
interface OpenStream {
  readonly id: string;
  refresh(): Promise<void>;
  end(): void;
}

/**
 * Streams of 2025 clients (`GET /mcp`): the lists that changed and the resources that were updated, as `subscriptions/listen` tells them to
 * clients of 2026-07-28. A client subscribes by separate requests at any replica: the subscriptions are stored, and
 * gateways tell each other about changes. A session has one stream, the newest. Notifications that its client has not read wait once each.
 *
 * Nothing is replayed. A client that connects again hears that everything may have changed: the lists, where it sends `Last-Event-ID`, and
 * the resources that it subscribes to.
 */
export class SessionStreams {
  readonly #gateway = randomUUID();
  readonly #open = new Map<string, OpenStream>();
  #isListening = false;

  constructor(
    private readonly stored: RedisSessionSubscriptions,
    private readonly subscriptions: ResourceSubscriptions,
    private readonly nats: Pick<NatsClient, 'connected' | 'publish' | 'subscribe'>,
    private readonly clock: Clock,
    private readonly onFault: (error: unknown) => void,
  ) {}

  /** Subscribes a session to a resource that its client may read. @throws ToolError REQUEST_INVALID, QUEUE_FULL, SERVICE_UNAVAILABLE */
  async subscribe(session: McpSession, address: string): Promise<void> {
    this.subscriptions.check(session.principal, 1);
    await this.stored.add(session, address);
    this.#tell({ session: sessionKey(session) });
  }

  /** @throws ToolError SERVICE_UNAVAILABLE */
  async unsubscribe(session: McpSession, address: string): Promise<void> {
    await this.stored.remove(session, address);
    this.#tell({ session: sessionKey(session) });
  }

  /** Opens the stream of a session, and ends its earlier one. @throws ToolError QUEUE_FULL, SERVICE_UNAVAILABLE */
  async open(session: McpSession, { signal, headers, bus, find }: StreamContext): Promise<Response> {
    const { principal } = session;
    const key = sessionKey(session);
    const due = new Map<string, string>();
    const ended = new AbortController();
    const stop = AbortSignal.any([signal, ended.signal]);
    let wake = (): void => undefined;
    const notify = (method: string, params?: JsonObject): void => {
      const message = JSON.stringify({ jsonrpc: '2.0', method, params });
      due.set(message, `event: message\ndata: ${message}\n\n`);
      wake();
    };
    const onUpdated = (uri: string): void => notify('notifications/resources/updated', { uri });
    const subscription = this.subscriptions.add({ principal, addresses: [], find, onUpdated });
    const leave = bus.subscribe(({ kind }) => {
      if (kind !== 'resource_updated') notify(`notifications/${kind.replace('_list', '/list')}`);
    });
    const refresh = async (): Promise<void> => subscription.want(await this.stored.list(session));
    const stream: OpenStream = { id: randomUUID(), refresh, end: () => ended.abort() };
    stop.addEventListener('abort', () => {
      leave();
      subscription.close();
      if (this.#open.get(key) === stream) this.#open.delete(key);
      wake();
    });
    this.#open.get(key)?.end();
    this.#open.set(key, stream);
    this.#tell({ session: key, stream: stream.id });
    try {
      await refresh();
      this.subscriptions.check(principal, 0);
    } catch (error) {
      stream.end();
      throw error;
    }
    if (signal.aborted) stream.end();
    if (headers['last-event-id'] !== undefined) for (const list of LISTS) notify(`notifications/${list}/list_changed`);

    const { clock, onFault } = this;
    const read = async function* (): AsyncGenerator<Uint8Array> {
      // Revisions before 2025-11-25 do not know events without data.
      yield headers['mcp-protocol-version'] === '2025-11-25' ? FIRST_EVENT : KEEP_ALIVE;
      let refreshedAt = clock.monotonic();
      while (!stop.aborted) {
        const [next] = due;
        if (next) {
          due.delete(next[0]);
          yield Buffer.from(next[1]);
          continue;
        }
        const { promise, resolve } = Promise.withResolvers<void>();
        wake = resolve;
        const cancel = clock.after(KEEP_ALIVE_MS, resolve);
        await promise;
        cancel();
        if (due.size > 0 || stop.aborted) continue;
        yield KEEP_ALIVE;
        if (clock.monotonic() - refreshedAt < REFRESH_MS) continue;
        refreshedAt = clock.monotonic();
        await refresh().catch(onFault);
      }
    };
    return new Response(ReadableStream.from(read()), {
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
    });
  }

  /** Ends all streams of this gateway. */
  close(): void {
    for (const stream of this.#open.values()) stream.end();
  }

  /** Tells all gateways that the subscriptions of a session changed, or that it has another stream. */
  #tell(notice: { session: string; stream?: string }): void {
    this.#listen();
    this.#heard(notice);
    if (this.nats.connected) this.nats.publish(SUBJECTS.mcpSession, { ...notice, gateway: this.#gateway });
  }

  #listen(): void {
    if (this.#isListening || !this.nats.connected) return;
    this.#isListening = true;
    this.nats.subscribe(SUBJECTS.mcpSession, ({ body }) => {
      // A notice of this gateway comes back: by then the session may have another stream here.
      if (isJsonObject(body) && body['gateway'] !== this.#gateway) this.#heard(body);
    });
  }

  #heard({ session, stream }: JsonObject): void {
    const open = this.#open.get(String(session));
    if (!open) return;
    if (stream === undefined) void open.refresh().catch(this.onFault);
    else if (stream !== open.id) open.end();
  }
}
