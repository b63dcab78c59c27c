import {
  CATALOGUE,
  isErrorCode,
  type AcceptedBody,
  type CallEvent,
  type CallProgress,
  type Json,
  type JsonObject,
} from '@toolfleet/contracts';
import type {
  BatchItem,
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
  type BatchOptions,
  type CallOptions,
  type ToolCallResult,
  type ToolsetOption,
  type ToolTypes,
} from './call-types.js';
import type {
  BatchCalls,
  ModelMessage,
  ProviderFormat,
  ProviderResults,
  ProviderToolFormat,
  ResultOf,
} from './provider-shapes.js';
import { readEvents, type ServerEvent } from './server-events.js';
import { errorOfBody, ToolCallError } from './tool-call-error.js';

/** Address of the fleet and credentials. */
export interface ToolfleetClientOptions {
  /** Base URL of the gateway, e.g. `http://127.0.0.1:8080`. */
  url: string;
  /** API key or JWT, sent as `Authorization: Bearer`. */
  apiKey?: string;
  /** Toolset of listed and called tools, e.g. `support`; `support@3` for one version. */
  toolset?: string;
  /**
   * How often a request is repeated that was refused for the moment or got no response; default 0. Calls then carry an idempotency key
   * (yours, or a random one), so that none runs twice: they bypass the cache, and their results are stored.
   */
  retries?: number;
  /** Replaces the platform's `fetch`. */
  fetch?: typeof fetch;
}

/** One page of the tool list. */
export interface ToolListPage {
  tools: ListedTool[];
  /** Pass it as `cursor` for the next page; absent on the last. */
  next?: string;
}

const POLL_FIRST_MS = 100;
const POLL_LONGEST_MS = 2_000;
/** Timeout of requests that run no tool. */
const READ_TIMEOUT_MS = 15_000;
/** Pauses before repeated requests, unless the gateway names one. */
const RETRY_FIRST_MS = 200;
const RETRY_LONGEST_MS = 5_000;
/** How often in a row `follow` may find no event stream before it gives up. */
const MAX_LOST_STREAMS = 8;

/**
 * Calls tools over HTTP, in Node and in browsers. Every method rejects with `ToolCallError` when the fleet refuses the request
 * or is unreachable. A failure of the tool itself is a normal response with `success: false`. With the interface that
 * `fleetctl tools types` prints, `new ToolfleetClient<Tools>(…)`, calls know the arguments and outputs of their tools.
 */
export class ToolfleetClient<Tools extends ToolTypes<Tools> = AnyTools> {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #toolset: string | undefined;
  readonly #retries: number;
  readonly #fetch: typeof fetch;

  constructor(options: ToolfleetClientOptions) {
    this.#base = options.url.replace(/\/+$/, '');
    this.#headers = options.apiKey ? { authorization: `Bearer ${options.apiKey}` } : {};
    this.#toolset = options.toolset;
    this.#retries = options.retries ?? 0;
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** All tools that the caller may see, optionally of one category; with `format` as a model provider takes them. */
  list(filter: { category?: string; format: ProviderToolFormat } & ToolsetOption): Promise<JsonObject[]>;
  list(filter?: { category?: string } & ToolsetOption): Promise<ListedTool[]>;
  async list(
    filter: { category?: string; format?: ProviderToolFormat } & ToolsetOption = {},
  ): Promise<ListedTool[] | JsonObject[]> {
    return (await this.request('GET /api/v1/tools', { query: this.#inToolset(filter) })) as ListedTool[] | JsonObject[];
  }

  /** One page of the list. */
  async page(filter: { category?: string; limit: number; cursor?: string } & ToolsetOption): Promise<ToolListPage> {
    const { body, headers } = await this.#send('GET /api/v1/tools', { query: this.#inToolset(filter) });
    const link = /<([^>]+)>;\s*rel="next"/.exec(headers.get('link') ?? '')?.[1];
    const next = link && new URL(link, 'http://gateway').searchParams.get('cursor');
    return { tools: body as ListedTool[], next: next || undefined };
  }

  /** Metadata and schema of one tool. */
  describe(name: string, { toolset }: ToolsetOption = {}): Promise<ListedTool> {
    return this.request('GET /api/v1/tools/{name}', { path: { name }, query: this.#inToolset({ toolset }) });
  }

  /**
   * Runs a tool and waits for its result. Aborting the signal cancels the call. With `onProgress` it runs in the background and its reports
   * are passed on; a call that is refused after its acceptance then has `success: false`.
   */
  async call<K extends keyof Tools & string>(
    name: K,
    args: Tools[K]['arguments'],
    options: CallOptions & { onProgress?: (progress: CallProgress) => void } = {},
  ): Promise<ToolCallResult<Tools[K]['output']>> {
    const { onProgress, ...fields } = options;
    if (onProgress) return this.#callWithProgress(name, args, fields, onProgress);
    return (await this.#execute(name, args, fields)) as ToolCallResult<Tools[K]['output']>;
  }

  /**
   * Runs several calls concurrently: a list, or the message of a model. Results are in the order of the calls, in the shape of each call, or
   * with `format` in the shape of a model provider.
   */
  batch<F extends ProviderFormat>(
    calls: BatchCalls | ModelMessage,
    options: BatchOptions & { format: F },
  ): Promise<ProviderResults[F][]>;
  batch<const Call extends BatchCalls[number]>(
    calls: readonly Call[],
    options?: BatchOptions,
  ): Promise<ResultOf<Call>[]>;
  async batch(
    calls: BatchCalls | ModelMessage,
    { format, ...options }: BatchOptions & { format?: ProviderFormat } = {},
  ): Promise<unknown[]> {
    const { fields, signal, waitMs, toolset } = splitOptions(options);
    const list = Array.isArray(calls) ? calls : [calls];
    return this.request('POST /api/v1/tools/batch-execute', {
      query: this.#inToolset({ toolset, format }),
      // The gateway reads every shape; the description of the route has one of them.
      body: { calls: list as BatchItem[], ...this.#withKey(fields) },
      signal,
      timeoutMs: waitMs,
    });
  }

  /** Starts an asynchronous call and returns its id; see `wait`. */
  async callAsync<K extends keyof Tools & string>(
    name: K,
    args: Tools[K]['arguments'],
    options: CallOptions = {},
  ): Promise<AcceptedBody> {
    const sent = { ...options, waitMs: READ_TIMEOUT_MS };
    return (await this.#execute(name, args, sent, { mode: 'async' })) as AcceptedBody;
  }

  /**
   * Events of an asynchronous call, or of one with a kept result: `accepted`, `started`, `progress`, and `done` with the result. Resumes
   * after lost connections until `done`, and ends before it when the signal is aborted.
   */
  async *follow<Output = Json>(
    callId: string,
    options: { signal?: AbortSignal; lastId?: string } = {},
  ): AsyncGenerator<CallEvent<ToolCallResult<Output>>> {
    const signal = options.signal ?? new AbortController().signal;
    let { lastId } = options;
    for (let lost = 0; !signal.aborted;) {
      try {
        for await (const { id = '', type, data } of this.events('GET /api/v1/calls/{id}/events', {
          path: { id: callId },
          signal,
          lastId,
        })) {
          [lastId, lost] = [id, 0];
          yield { id, type, ...(JSON.parse(data) as object) } as CallEvent<ToolCallResult<Output>>;
          if (type === 'done') return;
        }
        // A stream has a maximum duration. After the last event of an ended call there is no other.
        if (FINAL_STATUSES.has((await this.status(callId)).status) && lastId !== undefined) return;
        await pause(RETRY_FIRST_MS, signal).catch(() => undefined);
      } catch (error) {
        if (signal.aborted) return;
        lost += 1;
        if (lost > MAX_LOST_STREAMS || !isTransient(error)) throw error;
        await pause(retryPauseMs(lost, error), signal).catch(() => undefined);
      }
    }
  }

  /** State of an asynchronous call, with its result once finished; `result_omitted` says why the result is for others only. */
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
   * @returns the body of the answer; a text such as CSV is its text, and undefined without a body
   */
  async request<K extends RouteKey>(route: K, ...[sent]: RequestArguments<K>): Promise<RouteAnswer<K>> {
    return (await this.#send(route, sent ?? {})).body as RouteAnswer<K>;
  }

  /** Server-sent events of a route, until the signal is aborted or the stream ends. `EventSource` of browsers cannot send a key. */
  async *events<K extends RouteKey>(
    route: K,
    sent: RouteRequest<K> & AnyRequest & { signal: AbortSignal; lastId?: string },
  ): AsyncGenerator<ServerEvent> {
    const headers: Record<string, string> = { ...this.#headers, accept: 'text/event-stream' };
    if (sent.lastId !== undefined) headers['last-event-id'] = sent.lastId;
    const { signal } = sent;
    const response = await this.#fetch(this.#base + pathOf(route, sent), { headers, signal }).catch(
      (cause: unknown) => {
        throw this.#unanswered(cause, sent.signal);
      },
    );
    if (!response.ok)
      throw errorOfBody(response.status, parse(await response.text()), response.headers.get('retry-after'));
    // 204: the last event was received before.
    if (!response.body) return;
    try {
      yield* readEvents(response.body);
    } catch (cause) {
      throw this.#unanswered(cause, sent.signal);
    }
  }

  async #callWithProgress<K extends keyof Tools & string>(
    name: K,
    args: Tools[K]['arguments'],
    options: CallOptions,
    onProgress: (progress: CallProgress) => void,
  ): Promise<ToolCallResult<Tools[K]['output']>> {
    const { waitMs = 600_000, signal } = options;
    const { call_id: callId } = await this.callAsync(name, args, options);
    const timeout = AbortSignal.timeout(waitMs);
    for await (const event of this.follow<Tools[K]['output']>(callId, {
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    })) {
      if (event.type === 'progress') {
        const { id: _, type: __, ...progress } = event;
        onProgress(progress);
      }
      if (event.type !== 'done') continue;
      if (event.result) return event.result;
      throw new ToolCallError(
        event.state === 'outcome_unknown' ? 'OUTCOME_UNKNOWN' : 'CANCELLED',
        `Call ${callId} is ${event.state}`,
        { callId },
      );
    }
    await this.cancel(callId).catch(() => undefined);
    if (signal?.aborted) throw new ToolCallError('CANCELLED', 'The call was cancelled by its caller', { callId });
    throw new ToolCallError('DEADLINE_EXCEEDED', `No result within ${waitMs} ms`, { callId });
  }

  #execute(name: string, args: object, options: CallOptions, more: { mode?: 'async' } = {}) {
    const { fields, signal, waitMs, toolset } = splitOptions(options);
    return this.request('POST /api/v1/tools/{name}/execute', {
      path: { name },
      query: this.#inToolset({ toolset }),
      body: { arguments: args as JsonObject, ...this.#withKey(fields), ...more },
      signal,
      timeoutMs: waitMs,
    });
  }

  /** Fields with an idempotency key, if the request may be repeated. */
  #withKey(fields: JsonObject): JsonObject {
    return this.#retries === 0 ? fields : { idempotency_key: randomKey(), ...fields };
  }

  /** A query with the toolset of the request, or else of the client. */
  #inToolset<T extends ToolsetOption>(query: T): T {
    return { ...query, toolset: query.toolset ?? this.#toolset };
  }

  /** Sends a request, and again as long as it is refused for the moment, if a repetition changes nothing. */
  async #send(route: RouteKey, sent: AnyRequest & SendOptions): Promise<{ body: unknown; headers: Headers }> {
    const { signal, timeoutMs = READ_TIMEOUT_MS } = sent;
    const until = performance.now() + timeoutMs;
    const isRepeatable = route.startsWith('GET ') || 'idempotency_key' in ((sent.body ?? {}) as object);
    for (let tries = 0; ;) {
      const leftMs = until - performance.now();
      try {
        return await this.#sendOnce(route, { ...sent, timeoutMs: leftMs }, tries > 0);
      } catch (error) {
        tries += 1;
        if (!isRepeatable || tries > this.#retries || !isTransient(error)) throw error;
        const pauseMs = retryPauseMs(tries, error);
        if (performance.now() + pauseMs > until) throw error;
        await pause(pauseMs, signal);
      }
    }
  }

  async #sendOnce(
    route: RouteKey,
    sent: AnyRequest & SendOptions & { timeoutMs: number },
    isRepeated: boolean,
  ): Promise<{ body: unknown; headers: Headers }> {
    const { body: json, signal, timeoutMs } = sent;
    const timeout = AbortSignal.timeout(Math.ceil(timeoutMs));
    const requestHeaders: Record<string, string> = { ...this.#headers };
    if (json) requestHeaders['content-type'] = 'application/json';
    // The first request of the key may still run.
    if (json && isRepeated) requestHeaders['prefer'] = `wait=${Math.ceil(timeoutMs / 1_000)}`;
    let response: Response;
    let text: string;
    try {
      response = await this.#fetch(this.#base + pathOf(route, sent), {
        method: route.split(' ', 1)[0],
        headers: requestHeaders,
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
        body: json === undefined ? undefined : JSON.stringify(json),
      });
      text = await response.text();
    } catch (cause) {
      if (timeout.aborted && !signal?.aborted)
        throw new ToolCallError('DEADLINE_EXCEEDED', `No response within ${Math.ceil(timeoutMs)} ms`, { cause });
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
    const message = `The gateway${this.#base && ` at ${this.#base}`} is unreachable: ${toReason(cause)}`;
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

/** Whether the same request may succeed later: the gateway was unreachable, or its refusal is of the moment. */
function isTransient(error: unknown): boolean {
  if (!(error instanceof ToolCallError)) return false;
  const { code, status } = error;
  if (code === 'CONNECTION_FAILED') return true;
  return status > 0 && isErrorCode(code) && CATALOGUE[code].retryable;
}

/** Pause before repetition `n` (from 1) of a refused request, with jitter. */
function retryPauseMs(n: number, error: unknown): number {
  const named = error instanceof ToolCallError ? error.retryAfterMs : undefined;
  return named ?? Math.min(RETRY_LONGEST_MS, RETRY_FIRST_MS * 2 ** (n - 1)) * (0.5 + Math.random() / 2);
}

/** 128 random bits. `crypto.randomUUID` is missing on pages without TLS. */
const randomKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');

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
