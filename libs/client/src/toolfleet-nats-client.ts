import { connect, headers as newHeaders, type NatsConnection } from 'nats';
import type { AcceptedBody, CallRecord, CallState, JsonObject } from '@toolfleet/contracts';
import type { ListedTool } from '@toolfleet/contracts/resources';
import {
  splitOptions,
  type AnyTools,
  type BatchItem,
  type BatchOptions,
  type CallOptions,
  type ToolCallResult,
  type ToolsetOption,
  type ToolTypes,
} from './call-types.js';
import { errorOfBody, ToolCallError } from './tool-call-error.js';

/** Address of NATS and credentials. */
export interface ToolfleetNatsOptions {
  /** Servers, separated by commas. */
  url: string;
  user?: string;
  password?: string;
  /** API key, sent in `Authorization`. */
  apiKey?: string;
  /** Uses the tenant's own subjects (`tool.call.<tenant>`) that prove the tenant without a key. */
  tenant?: string;
  /** Toolset of listed and called tools, e.g. `support`; `support@3` for one version. */
  toolset?: string;
}

/** How one request is sent. */
interface Sending extends ToolsetOption {
  timeoutMs: number;
  signal?: AbortSignal;
}

type Verb = 'call' | 'batch' | 'list' | 'cancel';
const READ_TIMEOUT_MS = 15_000;

/** Calls tools over NATS, with one hop less than over HTTP. Errors are `ToolCallError`s with the same codes; types of tools are as in `ToolfleetClient`. */
export class ToolfleetNatsClient<Tools extends ToolTypes<Tools> = AnyTools> {
  private constructor(
    private readonly connection: NatsConnection,
    private readonly options: ToolfleetNatsOptions,
  ) {}

  /** Connects; rejects with CONNECTION_FAILED when no server answers. */
  static async connect<Tools extends ToolTypes<Tools> = AnyTools>(
    options: ToolfleetNatsOptions,
  ): Promise<ToolfleetNatsClient<Tools>> {
    try {
      const connection = await connect({
        servers: options.url.split(','),
        user: options.user,
        pass: options.password,
        // deploy/nats.conf allows a user to subscribe below its own name only
        inboxPrefix: options.user && `_INBOX.${options.user}`,
        maxReconnectAttempts: -1,
        noAsyncTraces: true,
      });
      return new ToolfleetNatsClient<Tools>(connection, options);
    } catch (cause) {
      throw new ToolCallError('CONNECTION_FAILED', `NATS is unreachable: ${(cause as Error).message}`, { cause });
    }
  }

  /** All tools that the caller may see. */
  list({ toolset, ...filter }: { category?: string } & ToolsetOption = {}): Promise<ListedTool[]> {
    return this.#request<ListedTool[]>('list', { ...filter }, { timeoutMs: READ_TIMEOUT_MS, toolset });
  }

  /** Runs a tool and waits for its result. */
  call<K extends keyof Tools & string>(
    name: K,
    args: Tools[K]['arguments'],
    options: CallOptions = {},
  ): Promise<ToolCallResult<Tools[K]['output']>> {
    const { fields, waitMs: timeoutMs, signal, toolset } = splitOptions(options);
    const body = { name, arguments: args as JsonObject, ...fields };
    return this.#request<ToolCallResult<Tools[K]['output']>>('call', body, { timeoutMs, signal, toolset });
  }

  /** Runs several calls concurrently. Results are in the order of `calls`. */
  batch(calls: readonly BatchItem[], options: BatchOptions = {}): Promise<CallRecord[]> {
    const { fields, waitMs: timeoutMs, signal, toolset } = splitOptions(options);
    const body = { calls: calls as unknown as JsonObject[], ...fields };
    return this.#request<CallRecord[]>('batch', body, { timeoutMs, signal, toolset });
  }

  /**
   * Starts an asynchronous call. Its end is published on `tool.result.<tenant>.<call_id>`: with the result if the client has no `apiKey`,
   * because every NATS user of the tenant reads it. With a key, `call('read_result', { handle: call_id })` reads the result, as HTTP does.
   */
  callAsync<K extends keyof Tools & string>(
    name: K,
    args: Tools[K]['arguments'],
    options: CallOptions = {},
  ): Promise<AcceptedBody> {
    const { fields, signal, toolset } = splitOptions(options);
    const body = { name, arguments: args as JsonObject, ...fields, mode: 'async' };
    return this.#request<AcceptedBody>('call', body, { timeoutMs: READ_TIMEOUT_MS, signal, toolset });
  }

  /** Cancels an asynchronous call and returns its state. */
  cancel(callId: string): Promise<{ call_id: string; state: CallState }> {
    const sending = { timeoutMs: READ_TIMEOUT_MS };
    return this.#request<{ call_id: string; state: CallState }>('cancel', { call_id: callId }, sending);
  }

  /** Closes the connection after pending responses. */
  async close(): Promise<void> {
    await this.connection.drain();
  }

  async #request<T>(
    verb: Verb,
    body: JsonObject,
    { timeoutMs, signal, toolset = this.options.toolset }: Sending,
  ): Promise<T> {
    if (signal?.aborted) throw new ToolCallError('CANCELLED', 'The call was cancelled by its caller');
    const head = newHeaders();
    if (this.options.apiKey) head.set('Authorization', `Bearer ${this.options.apiKey}`);
    head.set('Tf-Remaining-Ms', String(timeoutMs));
    // Callers can cancel their calls without a toolset, even when it was removed.
    if (toolset !== undefined && verb !== 'cancel') head.set('X-Toolset', toolset);
    const subject = this.options.tenant ? `tool.${verb}.${this.options.tenant}` : `tool.${verb}`;
    const reply = await this.#reply(subject, body, { timeout: timeoutMs, headers: head }, signal);
    const status = Number(reply.headers?.get('Nats-Service-Error-Code') ?? '');
    const answer = reply.data.length === 0 ? undefined : (reply.json() as unknown);
    if (status > 0) throw errorOfBody(status, answer);
    return answer as T;
  }

  async #reply(
    subject: string,
    body: JsonObject,
    options: { timeout: number; headers: ReturnType<typeof newHeaders> },
    signal: AbortSignal | undefined,
  ) {
    let onAbort = (): void => undefined;
    const aborted = new Promise<never>((_, reject) => {
      onAbort = () => reject(new ToolCallError('CANCELLED', 'The call was cancelled by its caller'));
      signal?.addEventListener('abort', onAbort, { once: true });
    });
    try {
      return await Promise.race([this.connection.request(subject, JSON.stringify(body), options), aborted]);
    } catch (error) {
      if (error instanceof ToolCallError) throw error;
      const code = (error as { code?: string }).code;
      if (code === '503')
        throw new ToolCallError('SERVICE_UNAVAILABLE', `No service is subscribed to ${subject}`, {
          status: 503,
          cause: error,
        });
      if (code === 'TIMEOUT')
        throw new ToolCallError('DEADLINE_EXCEEDED', `No response within ${options.timeout} ms`, { cause: error });
      throw new ToolCallError('CONNECTION_FAILED', `NATS: ${(error as Error).message}`, { cause: error });
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }
}
