import type { ListedTool } from '@toolfleet/client';
import type { JsonObject } from '@toolfleet/contracts';
import type { ErrorBody } from '@toolfleet/contracts/wire';
import { CliError, EXIT } from './cli-error.js';
import type { Connection } from './connection.js';

/** A response of the gateway with its parsed body. */
interface Answer<T> {
  status: number;
  body: T;
  headers: Headers;
}

/** A response of the gateway with an error status. */
export class Refused extends CliError {
  constructor(
    readonly status: number,
    readonly body: ErrorBody,
  ) {
    const hint = body.hint && !body.error.includes(body.hint) ? `\n  ${body.hint}` : '';
    const key = status === 401 ? '\n  Pass a key with --key <key>, or set TOOLFLEET_API_KEY (see "fleetctl help")' : '';
    const id = body.call_id ? `\n  call_id: ${body.call_id}` : '';
    super(
      `${body.error}${body.code ? ` (${body.code})` : ''}${hint}${key}${id}`,
      status === 401 || status === 403 ? EXIT.refused : EXIT.failed,
    );
  }
}

/** HTTP requests to one fleet. */
export class Gateway {
  constructor(
    readonly connection: Connection,
    /** Aborted by Ctrl-C; ends requests without their own signal. */
    private readonly interrupted: AbortSignal,
    private readonly send: typeof fetch = fetch,
  ) {}

  /** Sends a request. A body of JSON is parsed, Python is its text. @throws Refused unless the status is 2xx; CliError without a response */
  async request<T>(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    path: string,
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<Answer<T>> {
    const answer = await this.raw<T>(method, path, body, signal);
    if (answer.status >= 200 && answer.status < 300) return answer;
    const error = (answer.body ?? {}) as Partial<ErrorBody>;
    throw new Refused(answer.status, {
      ...error,
      error: error.error ?? `HTTP ${answer.status}`,
      code: error.code ?? '',
    });
  }

  /** Lines of a streamed response, without line ends. @throws Error when the response is not a stream */
  async *lines(path: string, signal: AbortSignal): AsyncGenerator<string> {
    const { url, key } = this.connection;
    const headers = { accept: 'text/event-stream', ...(key ? { authorization: `Bearer ${key}` } : {}) };
    const response = await this.send(url + path, { headers, signal, redirect: 'error' });
    if (!response.ok || !response.body) throw new Error(`HTTP ${response.status}`);
    const decoder = new TextDecoder();
    let rest = '';
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      const pieces = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = pieces.pop() ?? '';
      yield* pieces;
    }
  }

  /** Like `request`, but returns responses of any status. */
  async raw<T>(
    method: string,
    path: string,
    body?: unknown,
    signal: AbortSignal = this.interrupted,
  ): Promise<Answer<T>> {
    const { url, key } = this.connection;
    let response: Response;
    try {
      response = await this.send(url + path, {
        method,
        redirect: 'error', // a redirect must not receive the key
        headers: {
          accept: 'application/json',
          'user-agent': 'fleetctl',
          ...(key ? { authorization: `Bearer ${key}` } : {}),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal,
      });
    } catch (error) {
      if (signal.aborted) throw new CliError('Interrupted', 130);
      const { cause, message } = error as { cause?: { code?: string; message?: string }; message: string };
      const reason = cause?.code ?? cause?.message ?? message;
      throw new CliError(`No fleet answers at ${url} (${reason})`, EXIT.connection);
    }
    const text = await response.text();
    const isSource = response.headers.get('content-type')?.startsWith('text/x-python') === true;
    return { status: response.status, body: (isSource ? text : parsed(text)) as T, headers: response.headers };
  }
}

function parsed(text: string): unknown {
  if (text === '') return null;
  try {
    return JSON.parse(text) as JsonObject;
  } catch {
    return { error: text.slice(0, 300) };
  }
}

/** A path below the tools, of a toolset where one is named. */
export function toolsPath(path: string, toolset: string | undefined): string {
  return `/api/v1/tools${path}${toolset === undefined ? '' : `?toolset=${encodeURIComponent(toolset)}`}`;
}

/** A tool by name, in a toolset if one is named. @throws Refused, with a similar name if there is one */
export async function getTool(
  gateway: Gateway,
  name: string,
  signal: AbortSignal,
  toolset?: string,
): Promise<ListedTool> {
  const path = toolsPath(`/${encodeURIComponent(name)}`, toolset);
  return (await gateway.request<ListedTool>('GET', path, undefined, signal)).body;
}
