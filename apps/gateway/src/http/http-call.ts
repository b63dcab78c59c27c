import {
  ToolError,
  type CallCaller,
  type CallRequest,
  type EpochMs,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import { CALL_FIELDS, callRequest, type CallFields } from '@toolfleet/contracts/call-fields';
import { newCallId } from '@toolfleet/engine';
import { AbortSource, type Clock } from '@toolfleet/resilience';
import { beginTrace } from '@toolfleet/telemetry';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { PROJECT_HEADER, Projects, readUserAgent } from '@toolfleet/access';
import type { GuardedRequest } from '../server/guards.js';
import { waitedMs } from '../server/late-requests.js';
import type { BatchSender } from '../calls/tool-calls.js';
import type { CallIdCarrier } from '../server/error.filter.js';

/** A request behind the guard. */
export type HttpRequest = FastifyRequest & GuardedRequest & CallIdCarrier;

/** Longest wait that `Prefer: wait=<s>` may request. */
const MAX_WAIT_SECONDS = 120;
const MAX_IDEMPOTENCY_KEY = CALL_FIELDS.idempotency_key.schema.maxLength;

/** Turns HTTP requests into call requests: assigns ids, sets the deadline, and aborts the call when the client disconnects. */
export class HttpCalls {
  constructor(
    private readonly clock: Clock,
    /** Longest call in ms. */
    private readonly maxCallMs: number,
    private readonly projects: Projects = new Projects(),
  ) {}

  /** Runs the work of a request in the caller's trace (W3C `traceparent`). */
  traced<T>(http: HttpRequest, work: () => Promise<T>): Promise<T> {
    return beginTrace('http call', { get: (name) => readHeader(http, name) }, work);
  }

  /** The sender of a batch; the rest of its limits is shown in the headers of the answer. */
  batchSender(http: HttpRequest, reply: FastifyReply): BatchSender {
    return {
      caller: requirePrincipal(http),
      deadlineAt: this.sentAt(http) + this.maxCallMs,
      showAllowance: (headers) => void reply.headers(headers),
    };
  }

  /** The time of a call begins when its request may have been sent, so that nothing begins for a caller that has given up. */
  private sentAt(http: HttpRequest): EpochMs {
    return this.clock.now() - waitedMs(http.raw);
  }

  /**
   * The request of one call. Of a public caller only session, user and project reach a tool.
   * @throws ToolError PERMISSION_DENIED when the header `X-Project-Id` names a project that the credential may not use
   */
  toCallRequest(
    http: HttpRequest,
    reply: FastifyReply,
    toolName: string,
    args: JsonObject,
    fields: CallFields,
  ): CallRequest {
    const principal = requirePrincipal(http);
    const callId = newCallId(this.clock.now());
    http.callId = callId;
    const prefer = readHeader(http, 'prefer');
    const caller: CallCaller = {
      principal,
      origin: 'public',
      entryPoint: 'http',
      context: {
        user_id: principal.userId,
        session_id: fields.session_id,
        ...this.projects.choose(principal, 'public', { id: readHeader(http, PROJECT_HEADER) }),
      },
      signal: disconnectSignal(reply),
      client: readUserAgent(readHeader(http, 'user-agent')),
      approval: prefersAsync(prefer) ? { asks: false, parks: true } : undefined,
    };
    const bounds = { beginsAt: this.sentAt(http), maxMs: this.maxCallMs };
    const reuse = { idempotencyWaitMs: preferredWaitMs(prefer) };
    return callRequest({ id: callId, tool: toolName, arguments: args, fields }, caller, bounds, reuse);
  }
}

/**
 * Adds the fields that standard headers express: `Idempotency-Key` is equivalent to `idempotency_key`, and `Cache-Control` with
 * `no-store` to `cache: "no-store"`, with `no-cache` or `max-age=0` to `cache: "reload"`. The field `cache` goes before its header.
 * @throws ToolError REQUEST_INVALID when both are given and differ, or the header is empty or too long
 */
export function withHeaderFields<T extends CallFields>(http: HttpRequest, fields: T): T {
  const cache = fields.cache ?? readCacheControl(readHeader(http, 'cache-control'));
  const key = readHeader(http, 'idempotency-key');
  if (key === undefined) return cache === undefined ? fields : { ...fields, cache };
  if (fields.idempotency_key !== undefined && fields.idempotency_key !== key)
    throw new ToolError('REQUEST_INVALID', { message: 'Idempotency-Key and idempotency_key differ; send one of them' });
  if (key.length === 0 || key.length > MAX_IDEMPOTENCY_KEY) {
    throw new ToolError('REQUEST_INVALID', {
      message: `Idempotency-Key must have 1 to ${MAX_IDEMPOTENCY_KEY} characters`,
    });
  }
  return { ...fields, idempotency_key: key, cache };
}

/** The directives of a request (RFC 9111 section 5.2.1) that ask for a live result; all others are ignored. */
function readCacheControl(header: string | undefined): CallFields['cache'] {
  if (header === undefined) return undefined;
  const directives = header.toLowerCase().split(',');
  const has = (directive: string): boolean => directives.some((each) => each.trim() === directive);
  if (has('no-store')) return 'no-store';
  return has('no-cache') || has('max-age=0') ? 'reload' : undefined;
}

/** The authenticated caller of a guarded route. */
function requirePrincipal(http: HttpRequest): Principal {
  if (!http.principal) throw new Error('no principal: the route is public or the guard is not installed');
  return http.principal;
}

const signals = new WeakMap<FastifyReply['raw'], AbortSignal>();

/**
 * A signal that is aborted when the connection closes before the answer is written: a client that disconnects cancels its call.
 * All calls of a batch share one signal.
 */
export function disconnectSignal(reply: FastifyReply): AbortSignal {
  const known = signals.get(reply.raw);
  if (known) return known;
  const source = new AbortSource();
  signals.set(reply.raw, source.signal);
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished)
      source.abort(new ToolError('CANCELLED', { message: 'The client closed the connection' }));
  });
  return source.signal;
}

function readHeader(http: HttpRequest, name: string): string | undefined {
  const value = http.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** `Prefer: respond-async` (RFC 7240 section 4.1): its sender takes 202 for an answer where a call has to wait for a person. */
const prefersAsync = (prefer: string | undefined): boolean =>
  /(?:^|[,;\s])respond-async(?:$|[,;\s])/i.test(prefer ?? '');

/** `Prefer: wait=<seconds>` (RFC 7240 section 4.3). */
function preferredWaitMs(prefer: string | undefined): number | undefined {
  const seconds = /(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])/.exec(prefer ?? '')?.[1];
  return seconds === undefined ? undefined : Math.min(Number(seconds), MAX_WAIT_SECONDS) * 1_000;
}
