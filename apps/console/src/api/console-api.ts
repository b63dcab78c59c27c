import {
  type ApiKey,
  type Breaker,
  type Budget,
  type CallBody,
  type CallStatus,
  type CatalogTool,
  type CatalogToolDetail,
  errorOfBody,
  type Fleet,
  type JsonObject,
  type Me,
  type NewKey,
  type QuarantinedTool,
  type RecentCall,
  type RecentCallDetail,
  type ShownToolset,
  type SourceStatus,
  ToolCallError,
  type ToolLimit,
  type ToolsetSummary,
  type UsageRow,
  type AcceptedBody,
} from '@toolfleet/client';

const READ_TIMEOUT_MS = 15_000;
const CALL_TIMEOUT_MS = 125_000;
/** The registry reads a document or asks a server. */
const REGISTER_TIMEOUT_MS = 65_000;

/** Remaining requests of the key's own limits, from the last response. */
interface KeyAllowance {
  leftMinute: number;
  leftHour: number;
}

interface RequestOptions {
  method?: string;
  json?: object;
  signal?: AbortSignal | undefined;
  timeoutMs?: number;
}

/**
 * Requests to the gateway that served this page, with one key. Every method rejects with `ToolCallError` when the request is
 * refused or the gateway is unreachable. `onRefusedKey` is called when the key itself is rejected (401).
 */
export class ConsoleApi {
  /** Undefined until a response carried it. */
  allowance: KeyAllowance | undefined;

  constructor(
    private readonly key: string,
    private readonly onRefusedKey: () => void = () => undefined,
  ) {}

  me = (signal?: AbortSignal) => this.#read<Me>('/api/v1/me', signal);
  tools = (signal?: AbortSignal) => this.#read<CatalogTool[]>('/api/v1/catalog', signal);
  tool = (name: string, signal?: AbortSignal) =>
    this.#read<CatalogToolDetail>(`/api/v1/catalog/${encodeURIComponent(name)}`, signal);
  fleet = (signal?: AbortSignal) => this.#read<Fleet>('/api/v1/fleet', signal);
  quarantine = (signal?: AbortSignal) => this.#read<QuarantinedTool[]>('/api/v1/quarantine', signal);
  sources = (signal?: AbortSignal) => this.#read<SourceStatus[]>('/api/v1/sources', signal);
  /** One source with its tools, what was refused, and notes. */
  source = (id: string, signal?: AbortSignal) => this.#read<SourceStatus>(sourcePath(id), signal);
  /** Looks at a source now. A look that failed is in the answer. */
  refreshSource = (id: string) =>
    this.#send<SourceStatus>(sourcePath(id, '/refresh'), { method: 'POST', timeoutMs: REGISTER_TIMEOUT_MS });
  removeSource = (id: string) => this.#send<{ removed: string[] }>(sourcePath(id), { method: 'DELETE' });
  toolsets = (signal?: AbortSignal) => this.#read<ToolsetSummary[]>('/api/v1/toolsets', signal);
  /** One toolset with its tools, in a version or the latest. */
  toolset = (id: string, version?: string, signal?: AbortSignal) =>
    this.#read<ShownToolset>(toolsetPath(id, '', version), signal);
  /** Makes a new version. `id` is `name@tenant`, or the `name` of a shared toolset. */
  putToolset = (id: string, spec: JsonObject) =>
    this.#send<ShownToolset>(toolsetPath(id), { method: 'PUT', json: spec });
  rollbackToolset = (id: string, version: number) =>
    this.#send<ShownToolset>(toolsetPath(id, '/rollback'), { method: 'POST', json: { version } });
  approveOverride = (id: string, tool: string, pendingRevision: string) =>
    this.#send<ShownToolset>(toolsetPath(id, '/approve'), {
      method: 'POST',
      json: { tool, pending_revision: pendingRevision },
    });
  removeToolset = (id: string) => this.#send<{ removed: string }>(toolsetPath(id), { method: 'DELETE' });
  keys = (signal?: AbortSignal) => this.#read<ApiKey[]>('/api/v1/keys', signal);
  recentCalls = (signal?: AbortSignal) =>
    this.#read<{ enabled: boolean; calls: RecentCall[] }>('/api/v1/recent-calls?limit=200', signal);
  recentCall = (id: string, signal?: AbortSignal) =>
    this.#read<RecentCallDetail>(`/api/v1/recent-calls/${encodeURIComponent(id)}`, signal);
  breakers = async (signal?: AbortSignal) =>
    (await this.#read<{ breakers: Breaker[] }>('/api/v1/breakers', signal)).breakers;
  limits = async (signal?: AbortSignal) => (await this.#read<{ tools: ToolLimit[] }>('/api/v1/limits', signal)).tools;
  budgets = async (signal?: AbortSignal) =>
    (await this.#read<{ budgets: Budget[] }>('/api/v1/budgets', signal)).budgets;

  /** Usage per day and tool, from and to the days (`2026-01-31`) inclusive. */
  async usage(from: string, to: string, signal?: AbortSignal): Promise<UsageRow[]> {
    const path = `/api/v1/usage?group_by=day,tool&from=${from}&to=${to}`;
    return (await this.#read<{ rows: UsageRow[] }>(path, signal)).rows;
  }

  /** Runs a tool. Aborting closes the request, which cancels the call. */
  call(
    name: string,
    body: { arguments: JsonObject; mode?: 'async'; dry_run?: boolean; session_id?: string },
    signal?: AbortSignal,
  ): Promise<CallBody | AcceptedBody> {
    const path = `/api/v1/tools/${encodeURIComponent(name)}/execute`;
    return this.#send(path, { method: 'POST', json: body, signal, timeoutMs: CALL_TIMEOUT_MS });
  }

  asyncCall = (id: string, signal?: AbortSignal) =>
    this.#read<CallStatus>(`/api/v1/calls/${encodeURIComponent(id)}`, signal);
  cancelCall = (id: string) => this.#send<CallStatus>(`/api/v1/calls/${encodeURIComponent(id)}`, { method: 'DELETE' });

  /** Approves or rejects the revision that was shown. */
  decide(tool: QuarantinedTool, decision: 'approve' | 'reject'): Promise<unknown> {
    const json = { pending_revision: tool.pending_revision };
    return this.#send(`/api/v1/quarantine/${encodeURIComponent(tool.name)}/${decision}`, { method: 'POST', json });
  }

  createKey = (key: NewKey) => this.#send<ApiKey & { token: string }>('/api/v1/keys', { method: 'POST', json: key });
  revokeKey = (id: string) => this.#send(`/api/v1/keys/${encodeURIComponent(id)}`, { method: 'DELETE' });

  /** Server-sent events of a path, until the signal is aborted or the stream ends. `EventSource` cannot send a key. */
  async *events(path: string, signal: AbortSignal, lastId?: string): AsyncGenerator<EventFrame> {
    const response = await this.#fetch(path, {
      signal,
      headers: lastId === undefined ? {} : { 'last-event-id': lastId },
    });
    if (!response.ok || !response.body) throw this.#refusal(response, await response.text());
    const frames = new EventFrames();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* frames.push(value);
    }
  }

  #read<T>(path: string, signal?: AbortSignal): Promise<T> {
    return this.#send<T>(path, { signal });
  }

  async #send<T>(
    path: string,
    { method = 'GET', json, signal, timeoutMs = READ_TIMEOUT_MS }: RequestOptions,
  ): Promise<T> {
    const timeout = AbortSignal.timeout(timeoutMs);
    const response = await this.#fetch(path, {
      method,
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      headers: json ? { 'content-type': 'application/json' } : {},
      body: json && JSON.stringify(json),
    });
    const text = await response.text();
    this.#noteAllowance(response.headers);
    if (!response.ok) throw this.#refusal(response, text);
    return (text === '' ? undefined : parsed(text)) as T;
  }

  async #fetch(path: string, init: RequestInit & { headers: Record<string, string> }): Promise<Response> {
    try {
      const headers = { ...init.headers, authorization: `Bearer ${this.key}` };
      return await fetch(path, { ...init, headers, cache: 'no-store', credentials: 'omit', redirect: 'error' });
    } catch (cause) {
      if (cause instanceof DOMException && cause.name === 'AbortError')
        throw new ToolCallError('CANCELLED', 'Cancelled', { cause });
      if (cause instanceof DOMException && cause.name === 'TimeoutError')
        throw new ToolCallError('DEADLINE_EXCEEDED', 'The gateway did not answer in time', { cause });
      throw new ToolCallError('CONNECTION_FAILED', 'The gateway cannot be reached', { cause });
    }
  }

  #refusal(response: Response, text: string): ToolCallError {
    const error = errorOfBody(response.status, parsed(text), response.headers.get('retry-after'));
    if (error.status === 401) this.onRefusedKey();
    return error;
  }

  #noteAllowance(headers: Headers): void {
    const [leftMinute, leftHour] = ['minute', 'hour'].map((window) => headers.get(`x-ratelimit-remaining-${window}`));
    if (leftMinute && leftHour) this.allowance = { leftMinute: Number(leftMinute), leftHour: Number(leftHour) };
  }
}

/**
 * The path of a source by its id: `mcp/crm@acme`, or `mcp/crm` for one that is shared with all tenants.
 * @param action after the id, such as `/refresh`
 */
export function sourcePath(id: string, action = ''): string {
  const [kind = '', ...rest] = id.split('/');
  const name = rest.join('/');
  const query = name.includes('@') ? '' : '?visibility=fleet';
  return `/api/v1/sources/${encodeURIComponent(kind)}/${encodeURIComponent(name)}${action}${query}`;
}

/** The path of a toolset by its id: `support@acme`, or `support` for one that is shared with all tenants. */
function toolsetPath(id: string, action = '', version?: string): string {
  const query = new URLSearchParams();
  if (!id.includes('@')) query.set('visibility', 'fleet');
  if (version !== undefined) query.set('version', version);
  const text = query.toString();
  return `/api/v1/toolsets/${encodeURIComponent(id)}${action}${text === '' ? '' : `?${text}`}`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** One server-sent event. */
interface EventFrame {
  id: string | undefined;
  type: string;
  data: string;
}

/** Parses server-sent events from chunks of text that may be split anywhere. Comments are ignored. */
export class EventFrames {
  #rest = '';

  /** Adds a chunk. @returns the events that it completes */
  push(chunk: string): EventFrame[] {
    this.#rest = (this.#rest + chunk).replaceAll('\r\n', '\n');
    const parts = this.#rest.split('\n\n');
    this.#rest = parts.pop() ?? '';
    return parts.flatMap((part) => {
      const frame = parseFrame(part);
      return frame ? [frame] : [];
    });
  }
}

function parseFrame(text: string): EventFrame | undefined {
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
