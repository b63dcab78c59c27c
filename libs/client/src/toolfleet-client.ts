import type { AcceptedBody, CallBody, CallRecord, JsonObject } from '@toolfleet/contracts';
import {
  FINAL_STATUSES,
  splitOptions,
  type BatchItem,
  type CallOptions,
  type CallStatus,
  type ListedTool,
} from './call-types.js';
import type { UsageRow } from './management-types.js';
import { errorOfBody, ToolCallError } from './tool-call-error.js';

/** Where the fleet is and who calls. */
export interface ToolfleetClientOptions {
  /** Base URL of the gateway, e.g. `http://127.0.0.1:8080`. */
  url: string;
  /** API key or JWT, sent as `Authorization: Bearer`. */
  apiKey?: string;
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
/** Reads that take longer have failed. */
const READ_TIMEOUT_MS = 15_000;

/**
 * Calls tools over HTTP. Every method rejects with `ToolCallError` when the fleet refuses or cannot be reached; what a
 * tool did wrong is an answer like any other (`success: false`). Runs in Node and in browsers.
 */
export class ToolfleetClient {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #fetch: typeof fetch;

  constructor(options: ToolfleetClientOptions) {
    this.#base = options.url.replace(/\/+$/, '');
    this.#headers = options.apiKey ? { authorization: `Bearer ${options.apiKey}` } : {};
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** All tools the caller may see; of one category when given. */
  async list(filter: { category?: string } = {}): Promise<ListedTool[]> {
    return (await this.#read(`/api/v1/tools${query(filter)}`)) as ListedTool[];
  }

  /** One page of the list. */
  async page(filter: { category?: string; limit: number; cursor?: string }): Promise<ToolPage> {
    const { body, headers } = await this.#send('GET', `/api/v1/tools${query(filter)}`, { timeoutMs: READ_TIMEOUT_MS });
    const link = /<([^>]+)>;\s*rel="next"/.exec(headers.get('link') ?? '')?.[1];
    const next = link && new URL(link, 'http://gateway').searchParams.get('cursor');
    return { tools: body as ListedTool[], ...(next ? { next } : {}) };
  }

  /** Metadata and schema of one tool. */
  async describe(name: string): Promise<ListedTool> {
    return (await this.#read(`/api/v1/tools/${encodeURIComponent(name)}`)) as ListedTool;
  }

  /** Runs a tool and waits for its result. Aborting closes the request, which cancels the call. */
  async call(name: string, args: JsonObject, options: CallOptions = {}): Promise<CallBody> {
    const { fields, signal, waitMs } = splitOptions(options);
    const { body } = await this.#send('POST', `/api/v1/tools/${encodeURIComponent(name)}/execute`, {
      json: { arguments: args, ...fields },
      signal,
      timeoutMs: waitMs,
    });
    return body as CallBody;
  }

  /** Runs several calls at once; answers come in the order of `calls`. */
  async batch(calls: readonly BatchItem[], options: CallOptions = {}): Promise<CallRecord[]> {
    const { fields, signal, waitMs } = splitOptions(options);
    const { body } = await this.#send('POST', '/api/v1/tools/batch-execute', {
      json: { calls: calls as unknown as JsonObject[], ...fields },
      signal,
      timeoutMs: waitMs,
    });
    return body as CallRecord[];
  }

  /** Has a call accepted for later and returns its id; see `wait`. */
  async callAsync(name: string, args: JsonObject, options: CallOptions = {}): Promise<AcceptedBody> {
    const { fields, signal } = splitOptions(options);
    const { body } = await this.#send('POST', `/api/v1/tools/${encodeURIComponent(name)}/execute`, {
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

  /** Waits until an asynchronous call is finished, at most `waitMs` (default 10 minutes), asking ever more rarely. */
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

  /** Cancels an asynchronous call; answers with the state it is in then. */
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

  async #read(path: string): Promise<unknown> {
    return (await this.#send('GET', path, { timeoutMs: READ_TIMEOUT_MS })).body;
  }

  async #send(
    method: string,
    path: string,
    { json, signal, timeoutMs }: { json?: JsonObject; signal?: AbortSignal | undefined; timeoutMs: number },
  ): Promise<{ body: unknown; headers: Headers }> {
    const timeout = AbortSignal.timeout(timeoutMs);
    let response: Response;
    let text: string;
    try {
      response = await this.#fetch(this.#base + path, {
        method,
        headers: { ...this.#headers, ...(json ? { 'content-type': 'application/json' } : {}) },
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
        ...(json ? { body: JSON.stringify(json) } : {}),
      });
      text = await response.text();
    } catch (cause) {
      if (signal?.aborted) throw new ToolCallError('CANCELLED', 'The call was cancelled by its caller', { cause });
      if (timeout.aborted) throw new ToolCallError('DEADLINE_EXCEEDED', `No answer in ${timeoutMs} ms`, { cause });
      throw new ToolCallError(
        'CONNECTION_FAILED',
        `The gateway at ${this.#base} cannot be reached: ${reasonOf(cause)}`,
        { cause },
      );
    }
    const body = parse(text);
    if (!response.ok) throw errorOfBody(response.status, body, response.headers.get('retry-after'));
    if (body === undefined)
      throw new ToolCallError('BAD_ANSWER', 'The answer is not JSON', { status: response.status });
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

/** `fetch failed` says nothing; its cause does. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancelled = (): void => {
      clearTimeout(timer);
      reject(new ToolCallError('CANCELLED', 'The waiting was cancelled'));
    };
    if (signal?.aborted) return reject(new ToolCallError('CANCELLED', 'The waiting was cancelled'));
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', cancelled);
      resolve();
    }, ms);
    signal?.addEventListener('abort', cancelled, { once: true });
  });
}
