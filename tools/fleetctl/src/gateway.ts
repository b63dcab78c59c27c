import {
  type FinishedCall,
  type ListedTool,
  type RequestArguments,
  type RouteAnswer,
  type RouteKey,
  type ServerEvent,
  ToolfleetClient,
} from '@toolfleet/client';
import type { ErrorBody } from '@toolfleet/contracts/wire';
import { CliError, EXIT } from './cli-error.js';
import type { Connection } from './connection.js';
import { httpFetch } from './http-fetch.js';

/** A response of the gateway with an error status. */
export class Refused extends CliError {
  constructor(
    readonly status: number,
    readonly body: ErrorBody,
    /** The body as it was sent, of whatever shape. */
    readonly answer: object = body,
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

/** The one error answer without a code or hint. */
const DANGEROUS = {
  error: 'Tool not available via direct execution',
  hint: 'The tool, or one of these arguments, is dangerous: only internal callers run it, over NATS',
};

/** HTTP requests to one fleet. */
export class Gateway {
  readonly #client: ToolfleetClient;

  constructor(
    readonly connection: Connection,
    /** Aborted by Ctrl-C; ends requests without their own signal. */
    private readonly interrupted: AbortSignal,
    send: typeof fetch = httpFetch,
  ) {
    const { url, key } = connection;
    this.#client = new ToolfleetClient({ url, apiKey: key, fetch: (input, init = {}) => answered(send, input, init) });
  }

  /** Sends a request of the HTTP API. @throws Refused unless the status is 2xx; CliError without a response */
  async request<K extends RouteKey>(route: K, ...[sent]: RequestArguments<K>): Promise<RouteAnswer<K>> {
    const options = { signal: this.interrupted, timeoutMs: LONGEST_MS, ...sent };
    return this.#client.request(route, ...([options] as unknown as RequestArguments<K>)).catch(throwCause);
  }

  /** Events of a call until it has ended, without their content where the call is another's. @throws Error when the response is not a stream */
  callEvents(id: string, signal: AbortSignal): AsyncGenerator<ServerEvent> {
    return this.#client.events('GET /api/v1/calls/{id}/events', { path: { id }, query: { content: 'own' }, signal });
  }

  /** Finished calls as they end, after the one with this cursor, until the stream ends or breaks. @throws CliError */
  async *finishedCalls(cursor: string): AsyncGenerator<FinishedCall> {
    try {
      const sent = { signal: this.interrupted, lastId: cursor };
      for await (const { type, data } of this.#client.events('GET /api/v1/calls/events', sent))
        if (type === 'call') yield JSON.parse(data) as FinishedCall;
    } catch (error) {
      if (this.interrupted.aborted) throw new CliError('Interrupted', 130);
      const { cause } = error as Error;
      if (cause instanceof CliError) throw cause;
    }
  }
}

/** Throws what `answered` has thrown, wrapped by the client. */
function throwCause(error: Error): never {
  throw error.cause instanceof CliError ? error.cause : error;
}

/** The longest timer of Node, 24 days: only Ctrl-C ends a request. */
const LONGEST_MS = 2 ** 31 - 1;

/** The successful response of a request. @throws Refused for another one; CliError without one */
async function answered(send: typeof fetch, input: Parameters<typeof fetch>[0], init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    const headers = {
      accept: 'application/json',
      'user-agent': 'fleetctl',
      ...(init.headers as Record<string, string>),
    };
    response = await send(input, { ...init, headers });
  } catch (error) {
    if (init.signal?.aborted) throw new CliError('Interrupted', 130);
    const { cause, message } = error as { cause?: { code?: string; message?: string }; message: string };
    const reason = cause?.code ?? cause?.message ?? message;
    throw new CliError(`No fleet answers at ${new URL(String(input)).origin} (${reason})`, EXIT.connection);
  }
  if (response.ok) return response;
  const answer = parsed(await response.text());
  const { error = `HTTP ${response.status}`, code = '' } = answer;
  throw new Refused(response.status, { ...(error === DANGEROUS.error ? DANGEROUS : answer), error, code }, answer);
}

function parsed(text: string): Partial<ErrorBody> {
  if (text === '') return {};
  try {
    return JSON.parse(text) as Partial<ErrorBody>;
  } catch {
    return { error: text.slice(0, 300) };
  }
}

/** A tool by name, in a toolset if one is named. @throws Refused, with a similar name if there is one */
export function getTool(gateway: Gateway, name: string, signal: AbortSignal, toolset?: string): Promise<ListedTool> {
  return gateway.request('GET /api/v1/tools/{name}', { path: { name }, query: { toolset }, signal });
}
