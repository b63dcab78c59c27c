import type { AcceptedBody, CallRecord, JsonObject } from '@toolfleet/contracts';
import type {
  CallStatus,
  ListedTool,
  RouteAnswer,
  RouteKey,
  RouteRequest,
  UsageRow,
} from '@toolfleet/contracts/resources';
import {
  FINAL_STATUSES,
  splitOptions,
  type AnyTools,
  type BatchItem,
  type BatchOptions,
  type CallOptions,
  type CallResult,
  type ToolsetOption,
  type ToolTypes,
} from './call-types.js';
import { errorOfBody, ToolCallError } from './tool-call-error.js';

/** Address of the fleet and credentials. */
export interface ToolfleetClientOptions {
  /** Base URL of the gateway, e.g. `http://127.0.0.1:8080`. */
  url: string;
  /** API key or JWT, sent as `Authorization: Bearer`. */
  apiKey?: string;
  /** Toolset whose tools are listed and called, e.g. `support`; `support@3` for one version. */
  toolset?: string;
  /** Replaces the platform's `fetch`. */
  fetch?: typeof fetch;
}

/** One page of the tool list. */
export interface ToolPage {
  tools: ListedTool[];
  /** Pass it as `cursor` for the next page; absent on the last. */
  next?: string;
}

const POLL_FIRST_MS = 100;
const POLL_LONGEST_MS = 2_000;
/** Timeout of requests that run no tool. */
const READ_TIMEOUT_MS = 15_000;

/**
 * Calls tools over HTTP, in Node and in browsers. Every method rejects with `ToolCallError` when the fleet refuses the request
 * or is unreachable. A failure of the tool itself is a normal response with `success: false`. With the interface that
 * `fleetctl tools types` prints, `new ToolfleetClient<Tools>(…)`, calls know the arguments and outputs of their tools.
 */
export class ToolfleetClient<Tools extends ToolTypes<Tools> = AnyTools> {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #toolset: string | undefined;
  readonly #fetch: typeof fetch;

  constructor(options: ToolfleetClientOptions) {
    this.#base = options.url.replace(/\/+$/, '');
    this.#headers = options.apiKey ? { authorization: `Bearer ${options.apiKey}` } : {};
    this.#toolset = options.toolset;
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** All tools that the caller may see, optionally of one category. */
  list(filter: { category?: string } & ToolsetOption = {}): Promise<ListedTool[]> {
    return this.request('GET /api/v1/tools', { query: this.#inToolset(filter) });
  }

  /** One page of the list. */
  async page(filter: { category?: string; limit: number; cursor?: string } & ToolsetOption): Promise<ToolPage> {
    const { body, headers } = await this.#send('GET /api/v1/tools', { query: this.#inToolset(filter) });
    const link = /<([^>]+)>;\s*rel="next"/.exec(headers.get('link') ?? '')?.[1];
    const next = link && new URL(link, 'http://gateway').searchParams.get('cursor');
    return { tools: body as ListedTool[], next: next || undefined };
  }

  /** Metadata and schema of one tool. */
  describe(name: string, { toolset }: ToolsetOption = {}): Promise<ListedTool> {
    return this.request('GET /api/v1/tools/{name}', { path: { name }, query: this.#inToolset({ toolset }) });
  }

  /** Runs a tool and waits for its result. Aborting the signal cancels the call. */
  async call<K extends keyof Tools & string>(
    name: K,
    args: Tools[K]['arguments'],
    options: CallOptions = {},
  ): Promise<CallResult<Tools[K]['output']>> {
    return (await this.#execute(name, args, options)) as CallResult<Tools[K]['output']>;
  }

  /** Runs several calls concurrently. Results are in the order of `calls`. */
  async batch(calls: readonly BatchItem[], options: BatchOptions = {}): Promise<CallRecord[]> {
    const { fields, signal, waitMs, toolset } = splitOptions(options);
    const answers = await this.request('POST /api/v1/tools/batch-execute', {
      query: this.#inToolset({ toolset }),
      body: { calls: [...calls], ...fields },
      signal,
      timeoutMs: waitMs,
    });
    return answers as CallRecord[];
  }

  /** Starts an asynchronous call and returns its id; see `wait`. */
  async callAsync<K extends keyof Tools & string>(
    name: K,
    args: Tools[K]['arguments'],
    options: CallOptions = {},
  ): Promise<AcceptedBody> {
    return (await this.#execute(
      name,
      args,
      { ...options, waitMs: READ_TIMEOUT_MS },
      { mode: 'async' },
    )) as AcceptedBody;
  }

  /** State of an asynchronous call, with its result once finished. */
  status(callId: string): Promise<CallStatus> {
    return this.request('GET /api/v1/calls/{id}', { path: { id: callId } });
  }

  /** Waits until an asynchronous call is finished, at most `waitMs` (default 10 minutes). Polls at growing intervals. */
  async wait(callId: string, options: { signal?: AbortSignal; waitMs?: number } = {}): Promise<CallStatus> {
    const until = performance.now() + (options.waitMs ?? 600_000);
    for (let pauseMs = POLL_FIRST_MS; ; pauseMs = Math.min(POLL_LONGEST_MS, pauseMs * 1.5)) {
      const status = await this.status(callId);
      if (FINAL_STATUSES.has(status.status)) return status;
      if (performance.now() + pauseMs > until) {
        throw new ToolCallError('DEADLINE_EXCEEDED', `Call ${callId} is still ${status.status}`, {
          status: 504,
          callId,
        });
      }
      await pause(pauseMs, options.signal);
    }
  }

  /** Cancels an asynchronous call and returns its status. */
  cancel(callId: string): Promise<{ call_id: string; status: CallStatus['status'] }> {
    return this.request('DELETE /api/v1/calls/{id}', { path: { id: callId } });
  }

  /**
   * Usage of the caller's tenant, summed by the given groups (default day and tool); of `tenant_id`, or of all tenants by `tenant`,
   * for operators. Days as `2026-01-31`, inclusive.
   */
  async usage(
    filter: {
      from?: string;
      to?: string;
      tenant_id?: string;
      group_by?: readonly ('tenant' | 'day' | 'tool' | 'source' | 'user' | 'key' | 'agent')[];
    } = {},
  ): Promise<UsageRow[]> {
    const { group_by: groups, ...days } = filter;
    return (await this.request('GET /api/v1/usage', { query: { ...days, group_by: groups?.join(',') } })).rows;
  }

  /**
   * Sends a request of the HTTP API, named by method and path: `request('GET /api/v1/keys')`,
   * `request('DELETE /api/v1/keys/{id}', { path: { id } })`. `/openapi.json` describes the routes.
   * @returns the body of the answer; that of a text such as CSV is its text, and undefined without a body
   */
  async request<K extends RouteKey>(route: K, ...[sent]: RequestArguments<K>): Promise<RouteAnswer<K>> {
    return (await this.#send(route, sent ?? {})).body as RouteAnswer<K>;
  }

  /** Server-sent events of a route, until the signal is aborted or the stream ends. `EventSource` of browsers cannot send a key. */
  async *events<K extends RouteKey>(
    route: K,
    sent: RouteRequest<K> & AnyRequest & { signal: AbortSignal; lastId?: string },
  ): AsyncGenerator<ServerEvent> {
    const headers = {
      accept: 'text/event-stream',
      ...(sent.lastId === undefined ? {} : { 'last-event-id': sent.lastId }),
    };
    const response = await this.#fetch(this.#base + pathOf(route, sent), {
      headers: { ...this.#headers, ...headers },
      signal: sent.signal,
    }).catch((cause: unknown) => {
      throw this.#unanswered(cause, sent.signal);
    });
    if (!response.ok || !response.body)
      throw errorOfBody(response.status, parse(await response.text()), response.headers.get('retry-after'));
    const parser = new EventParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(value);
    }
  }

  #execute(name: string, args: object, options: CallOptions, more: { mode?: 'async' } = {}) {
    const { fields, signal, waitMs, toolset } = splitOptions(options);
    return this.request('POST /api/v1/tools/{name}/execute', {
      path: { name },
      query: this.#inToolset({ toolset }),
      body: { arguments: args as JsonObject, ...fields, ...more },
      signal,
      timeoutMs: waitMs,
    });
  }

  /** A query with the toolset of the request, or else of the client. */
  #inToolset<T extends ToolsetOption>(query: T): T {
    return { ...query, toolset: query.toolset ?? this.#toolset };
  }

  async #send(route: RouteKey, sent: AnyRequest & SendOptions): Promise<{ body: unknown; headers: Headers }> {
    const { body: json, signal, timeoutMs = READ_TIMEOUT_MS } = sent;
    const timeout = AbortSignal.timeout(timeoutMs);
    let response: Response;
    let text: string;
    try {
      response = await this.#fetch(this.#base + pathOf(route, sent), {
        method: route.split(' ', 1)[0],
        headers: { ...this.#headers, ...(json ? { 'content-type': 'application/json' } : {}) },
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
        body: json === undefined ? undefined : JSON.stringify(json),
      });
      text = await response.text();
    } catch (cause) {
      if (timeout.aborted && !signal?.aborted)
        throw new ToolCallError('DEADLINE_EXCEEDED', `No response within ${timeoutMs} ms`, { cause });
      throw this.#unanswered(cause, signal);
    }
    const { headers, status } = response;
    const isText = /^text\//.test(headers.get('content-type') ?? '');
    const body = isText ? text : parse(text);
    if (!response.ok) throw errorOfBody(status, body, headers.get('retry-after'));
    if (body === undefined && text !== '')
      throw new ToolCallError('BAD_ANSWER', 'The response is not JSON', { status });
    return { body, headers };
  }

  #unanswered(cause: unknown, signal: AbortSignal | undefined): ToolCallError {
    if (signal?.aborted) return new ToolCallError('CANCELLED', 'The call was cancelled by its caller', { cause });
    const message = `The gateway at ${this.#base} is unreachable: ${toReason(cause)}`;
    return new ToolCallError('CONNECTION_FAILED', message, { cause });
  }
}

/** How one request is sent. */
interface SendOptions {
  signal?: AbortSignal;
  /** Default 15 s. */
  timeoutMs?: number;
}
/** What follows the key of a route: path, query and body, and how to send them. */
export type RequestArguments<K extends RouteKey> =
  object extends RouteRequest<K> ? [sent?: RouteRequest<K> & SendOptions] : [sent: RouteRequest<K> & SendOptions];
type AnyRequest = { path?: Record<string, string>; query?: object; body?: unknown };

/** Path and query of a request. */
function pathOf(route: RouteKey, { path = {}, query = {} }: AnyRequest): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined) parameters.set(key, String(value));
  const filled = route
    .split(' ')[1]!
    .replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name] ?? ''));
  return parameters.size === 0 ? filled : `${filled}?${parameters.toString()}`;
}

/** One server-sent event. */
export interface ServerEvent {
  id: string | undefined;
  type: string;
  data: string;
}

/** Parses server-sent events from chunks of text that may be split anywhere. Comments are ignored. */
export class EventParser {
  #rest = '';

  /** Adds a chunk. @returns the events that it completes */
  push(chunk: string): ServerEvent[] {
    this.#rest = (this.#rest + chunk).replaceAll('\r\n', '\n');
    const parts = this.#rest.split('\n\n');
    this.#rest = parts.pop() ?? '';
    return parts.flatMap((part) => parseEvent(part) ?? []);
  }
}

function parseEvent(text: string): ServerEvent | undefined {
  let id: string | undefined;
  let type = 'message';
  const data: string[] = [];
  for (const line of text.split('\n')) {
    const [, field, value = ''] = /^(\w+):? ?(.*)$/.exec(line) ?? [];
    if (field === 'id') id = value;
    else if (field === 'event') type = value;
    else if (field === 'data') data.push(value);
  }
  return data.length === 0 ? undefined : { id, type, data: data.join('\n') };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The message of the cause, because `fetch failed` alone is useless. */
function toReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancelled = (): void => {
      clearTimeout(timer);
      reject(new ToolCallError('CANCELLED', 'The wait was cancelled'));
    };
    if (signal?.aborted) return reject(new ToolCallError('CANCELLED', 'The wait was cancelled'));
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', cancelled);
      resolve();
    }, ms);
    signal?.addEventListener('abort', cancelled, { once: true });
  });
}
