import type { AcceptedBody, CallBody, CallRecord, JsonObject } from '@toolfleet/contracts';
import {
  FINAL_STATUSES,
  splitOptions,
  type BatchItem,
  type BatchOptions,
  type CallOptions,
  type CallStatus,
  type ListedTool,
  type ToolsetOption,
} from './call-types.js';
import type { UsageRow } from './management-types.js';
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
 * or is unreachable. A failure of the tool itself is a normal response with `success: false`.
 */
export class ToolfleetClient {
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
  async list(filter: { category?: string } & ToolsetOption = {}): Promise<ListedTool[]> {
    return (await this.#read(this.#tools('', filter))) as ListedTool[];
  }

  /** One page of the list. */
  async page(filter: { category?: string; limit: number; cursor?: string } & ToolsetOption): Promise<ToolPage> {
    const { body, headers } = await this.#send('GET', this.#tools('', filter), { timeoutMs: READ_TIMEOUT_MS });
    const link = /<([^>]+)>;\s*rel="next"/.exec(headers.get('link') ?? '')?.[1];
    const next = link && new URL(link, 'http://gateway').searchParams.get('cursor');
    return { tools: body as ListedTool[], next: next || undefined };
  }

  /** Metadata and schema of one tool. */
  async describe(name: string, { toolset }: ToolsetOption = {}): Promise<ListedTool> {
    return (await this.#read(this.#tools(`/${encodeURIComponent(name)}`, { toolset }))) as ListedTool;
  }

  /** Runs a tool and waits for its result. Aborting the signal cancels the call. */
  async call(name: string, args: JsonObject, options: CallOptions = {}): Promise<CallBody> {
    const { fields, signal, waitMs, toolset } = splitOptions(options);
    const { body } = await this.#send('POST', this.#tools(`/${encodeURIComponent(name)}/execute`, { toolset }), {
      json: { arguments: args, ...fields },
      signal,
      timeoutMs: waitMs,
    });
    return body as CallBody;
  }

  /** Runs several calls concurrently. Results are in the order of `calls`. */
  async batch(calls: readonly BatchItem[], options: BatchOptions = {}): Promise<CallRecord[]> {
    const { fields, signal, waitMs, toolset } = splitOptions(options);
    const { body } = await this.#send('POST', this.#tools('/batch-execute', { toolset }), {
      json: { calls: calls as unknown as JsonObject[], ...fields },
      signal,
      timeoutMs: waitMs,
    });
    return body as CallRecord[];
  }

  /** Starts an asynchronous call and returns its id; see `wait`. */
  async callAsync(name: string, args: JsonObject, options: CallOptions = {}): Promise<AcceptedBody> {
    const { fields, signal, toolset } = splitOptions(options);
    const { body } = await this.#send('POST', this.#tools(`/${encodeURIComponent(name)}/execute`, { toolset }), {
      json: { arguments: args, ...fields, mode: 'async' },
      signal,
      timeoutMs: READ_TIMEOUT_MS,
    });
    return body as AcceptedBody;
  }

  /** State of an asynchronous call, with its result once finished. */
  async status(callId: string): Promise<CallStatus> {
    return (await this.#read(`/api/v1/calls/${encodeURIComponent(callId)}`)) as CallStatus;
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
  async cancel(callId: string): Promise<{ call_id: string; status: CallStatus['status'] }> {
    const { body } = await this.#send('DELETE', `/api/v1/calls/${encodeURIComponent(callId)}`, {
      timeoutMs: READ_TIMEOUT_MS,
    });
    return body as { call_id: string; status: CallStatus['status'] };
  }

  /** Usage of the caller's tenant, summed by the given groups (default day and tool). Days as `2026-01-31`, inclusive. */
  async usage(
    filter: { from?: string; to?: string; group_by?: readonly ('day' | 'tool' | 'user' | 'agent')[] } = {},
  ): Promise<UsageRow[]> {
    const { group_by: groups, ...days } = filter;
    const body = await this.#read(`/api/v1/usage${query({ ...days, group_by: groups?.join(',') })}`);
    return (body as { rows: UsageRow[] }).rows;
  }

  /** A path below the tools, in the toolset of the request or else of the client. */
  #tools(path: string, { toolset = this.#toolset, ...filter }: Record<string, string | number | undefined>): string {
    return `/api/v1/tools${path}${query({ ...filter, toolset })}`;
  }

  async #read(path: string): Promise<unknown> {
    return (await this.#send('GET', path, { timeoutMs: READ_TIMEOUT_MS })).body;
  }

  async #send(
    method: string,
    path: string,
    { json, signal, timeoutMs }: { json?: JsonObject; signal?: AbortSignal; timeoutMs: number },
  ): Promise<{ body: unknown; headers: Headers }> {
    const timeout = AbortSignal.timeout(timeoutMs);
    let response: Response;
    let text: string;
    try {
      response = await this.#fetch(this.#base + path, {
        method,
        headers: { ...this.#headers, ...(json ? { 'content-type': 'application/json' } : {}) },
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
        body: json && JSON.stringify(json),
      });
      text = await response.text();
    } catch (cause) {
      if (signal?.aborted) throw new ToolCallError('CANCELLED', 'The call was cancelled by its caller', { cause });
      if (timeout.aborted)
        throw new ToolCallError('DEADLINE_EXCEEDED', `No response within ${timeoutMs} ms`, { cause });
      throw new ToolCallError('CONNECTION_FAILED', `The gateway at ${this.#base} is unreachable: ${toReason(cause)}`, {
        cause,
      });
    }
    const body = parse(text);
    if (!response.ok) throw errorOfBody(response.status, body, response.headers.get('retry-after'));
    if (body === undefined)
      throw new ToolCallError('BAD_ANSWER', 'The response is not JSON', { status: response.status });
    return { body, headers: response.headers };
  }
}

function query(fields: Record<string, string | number | undefined>): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(fields)) if (value !== undefined) parameters.set(key, String(value));
  return parameters.size === 0 ? '' : `?${parameters.toString()}`;
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
