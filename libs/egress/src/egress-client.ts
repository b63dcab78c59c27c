import type { Readable } from 'node:stream';
import { isToolError, ToolError } from '@toolfleet/contracts';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import type { Dispatcher } from 'undici';
import { AddressGuard } from './address-guard.js';
import { Allowlist } from './allowlist.js';
import { ConnectionPools } from './connection-pools.js';
import { ACCEPTED_ENCODINGS } from './decode-body.js';
import { SystemDialer, type Dialer } from './dialer.js';
import { networkError } from './network-error.js';
import { isRedirect, redirectHeaders, redirectTarget } from './redirect.js';
import { refusal, type BlockedHook, type EgressLayer, type EgressReason } from './refusal.js';
import { CachingResolver, SystemResolver, type Resolver } from './resolver.js';
import { requestHeaders } from './request-headers.js';
import { RequestWatch, type EgressTimeouts } from './request-watch.js';
import { EgressBody } from './response-body.js';
import { endpointOrigin, guardUrl, type GuardedUrl, type UrlPolicy } from './url-guard.js';

/** What an egress client may reach, and how much of it. Everything but `allowlist` has the default named beside it. */
export interface EgressOptions {
  /** `host`, `*.host`, `host:port`, `http://host`; `*` only together with `allowAnyHost`. Empty: nothing but `allowedEndpoints`. */
  allowlist: readonly string[];
  /** Development flag that permits `*` in the allowlist. */
  allowAnyHost?: boolean;
  /** `EGRESS_ALLOWED_ENDPOINTS`: exact origins exempt from rules 4-6 and 8 (rule 15). None. */
  allowedEndpoints?: readonly string[];
  /** Allowed to every listed host; `https`. An entry `http://host` allows plain HTTP to that host. */
  schemes?: readonly ('https' | 'http')[];
  /** Allowed to every listed host; 80 and 443. */
  ports?: readonly number[];
  /** Pod, service and node ranges. */
  deniedCidrs?: readonly string[];
  resolver?: Resolver;
  dialer?: Dialer;
  clock?: Clock;
  /** Makes each request a step of a trace: sends it with the headers that carry the trace on. */
  trace?: OutgoingTrace;
  /** Told of every refusal; for the metric. */
  onBlocked?: BlockedHook;
  limits?: Partial<EgressLimits>;
  /** Sent when the request names none. */
  userAgent?: string;
}

/** Wraps a request; `inUpstreamSpan` of libs/telemetry is one. */
export type OutgoingTrace = (
  request: { method: string; url: string },
  send: (headers: Readonly<Record<string, string>>) => Promise<EgressResponse>,
) => Promise<EgressResponse>;

/** Caps of a client; figures from D21 and security.md 3.2 rule 13. */
export interface EgressLimits extends EgressTimeouts {
  /** Decompressed bytes of a response: 3 MiB. */
  maxBytes: number;
  /** Decompressed bytes per received byte: 200. */
  maxRatio: number;
  /** Response headers: 32 KiB. */
  maxHeaderBytes: number;
  /** Sockets in all: 100. */
  totalConnections: number;
  /** Sockets per origin: 10. */
  connectionsPerHost: number;
  /** Resolve, wait for a free connection and handshake: 10 s. */
  connectMs: number;
  /** Idle sockets are closed after 4 s. */
  keepAliveMs: number;
  /** Answers of the resolver are reused for 300 s; each dial checks them again. */
  dnsCacheMs: number;
  /** Redirects followed at most: 3. */
  maxRedirects: number;
}

const DEFAULT_LIMITS: EgressLimits = {
  maxBytes: 3 * 1024 * 1024,
  maxRatio: 200,
  maxHeaderBytes: 32 * 1024,
  totalConnections: 100,
  connectionsPerHost: 10,
  connectMs: 10_000,
  keepAliveMs: 4_000,
  dnsCacheMs: 300_000,
  maxRedirects: 3,
  headersMs: 30_000,
  bodyIdleMs: 30_000,
  totalMs: 30_000,
};

/** One request. Without overrides the client's limits hold. */
export interface EgressRequest {
  /** Absolute URL; or an origin and the exact bytes of the request target, which no parser touches. */
  url: string | { origin: string; target: string };
  method?: string;
  headers?: Readonly<Record<string, string>>;
  /** A stream is sent once; redirects never repeat a body. */
  body?: string | Uint8Array | Readable | null;
  signal?: AbortSignal;
  timeouts?: Partial<EgressTimeouts>;
  maxBytes?: number;
  onOverflow?: 'error' | 'truncate';
  /** GET and HEAD only; true unless said otherwise. False hands the 3xx to the caller. */
  followRedirects?: boolean;
}

/** A response whose body still streams; read or cancel `body`. */
export interface EgressResponse {
  status: number;
  statusText: string;
  /** Names in lower case; repeated headers as an array. */
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The URL that answered. */
  url: string;
  redirects: number;
  body: EgressBody;
}

/** The request target as bytes: origin-form (RFC 9112 3.2.1) of visible ASCII without a fragment. */
const RAW_TARGET = /^\/[\u0021-\u0022\u0024-\u005b\u005d-\u007e]*$/;

/**
 * The only way out of the fleet: allowlist, address guard, pinned connections, capped responses (security.md 3).
 * Refusals are EGRESS_REFUSED with `layer` and `reason`; other failures NETWORK_ERROR, ATTEMPT_TIMED_OUT,
 * RESULT_TOO_LARGE or CANCELLED. Proxy environment variables are ignored.
 */
export class EgressClient {
  private readonly policy: UrlPolicy;
  private readonly limits: EgressLimits;
  private readonly clock: Clock;
  private readonly pools: ConnectionPools;
  private readonly onBlocked: BlockedHook;
  private readonly userAgent: string;
  private readonly trace: OutgoingTrace | undefined;

  /** @throws ToolError REQUEST_INVALID on a malformed allowlist, endpoint or range */
  constructor(options: EgressOptions) {
    this.policy = {
      allowlist: new Allowlist(options.allowlist, options.allowAnyHost),
      schemes: options.schemes ?? ['https'],
      ports: options.ports ?? [80, 443],
      allowedEndpoints: new Set((options.allowedEndpoints ?? []).map(endpointOrigin)),
    };
    this.limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.clock = options.clock ?? new SystemClock();
    this.onBlocked = options.onBlocked ?? (() => undefined);
    this.userAgent = options.userAgent ?? 'toolfleet';
    this.trace = options.trace;
    this.pools = new ConnectionPools(this.limits, {
      resolver: new CachingResolver(options.resolver ?? new SystemResolver(), this.clock, this.limits.dnsCacheMs),
      guard: new AddressGuard(options.deniedCidrs),
      dialer: options.dialer ?? new SystemDialer(),
      clock: this.clock,
      connectTimeoutMs: this.limits.connectMs,
    });
  }

  /** Rules 1-6 on a URL without sending anything: for registration and configuration checks. @throws ToolError EGRESS_REFUSED */
  check(url: string): GuardedUrl {
    return this.reporting(() => guardUrl(url, this.policy));
  }

  /** Sends a request and resolves once the response headers are here. */
  async request(request: EgressRequest): Promise<EgressResponse> {
    const target = this.reporting(() => this.targetOf(request));
    if (!this.trace) return this.follow(request, target);
    const { method = 'GET', url } = request;
    const facts = { method: method.toUpperCase(), url: typeof url === 'string' ? url : url.origin };
    return this.trace(facts, (headers) =>
      this.follow({ ...request, headers: { ...request.headers, ...headers } }, target),
    );
  }

  private async follow(request: EgressRequest, first: GuardedUrl): Promise<EgressResponse> {
    let target = first;
    let headers = this.reporting(() => requestHeaders(request.headers ?? {}));
    const method = (request.method ?? 'GET').toUpperCase();
    const follow = (method === 'GET' || method === 'HEAD') && request.followRedirects !== false;
    const watch = new RequestWatch(
      this.clock,
      { ...this.timeouts(), ...request.timeouts },
      request.signal,
      target.host,
    );
    try {
      for (let redirects = 0; ; redirects += 1) {
        const response = await this.send(target, method, headers, request, watch);
        const location = single(response.headers['location']);
        if (!follow || !isRedirect(response.status, location)) return { ...response, redirects };
        response.body.cancel();
        const from = target;
        target = this.reporting(() => {
          if (redirects >= this.limits.maxRedirects) throw refusal('redirect', 'too_many_redirects', from.host);
          return redirectTarget(location, from, this.policy);
        });
        headers = redirectHeaders(headers, from, target);
      }
    } catch (error) {
      watch.end();
      throw this.counted(error);
    }
  }

  /** Ends all connections; requests in flight fail. */
  async close(): Promise<void> {
    await this.pools.close();
  }

  /** Open sockets of all origins; for a gauge and for tests. */
  get openConnections(): number {
    return this.pools.openConnections;
  }

  private async send(
    target: GuardedUrl,
    method: string,
    headers: Record<string, string>,
    request: EgressRequest,
    watch: RequestWatch,
  ): Promise<Omit<EgressResponse, 'redirects'>> {
    const { pool, done } = this.pools.use(target);
    const sent = { started: false };
    const headersDone = watch.awaitHeaders();
    try {
      watch.signal.throwIfAborted();
      const response = await pool.compose(noteStart(sent)).request({
        path: target.target,
        method: method as Dispatcher.HttpMethod,
        headers: { 'user-agent': this.userAgent, 'accept-encoding': ACCEPTED_ENCODINGS, ...headers },
        body: request.body ?? null,
        signal: watch.signal,
      });
      headersDone();
      const body = new EgressBody(
        response.body,
        method === 'HEAD' ? '' : (single(response.headers['content-encoding']) ?? ''),
        {
          maxBytes: request.maxBytes ?? this.limits.maxBytes,
          onOverflow: request.onOverflow ?? 'error',
          maxRatio: this.limits.maxRatio,
        },
        watch,
        target.host,
        done,
      );
      return {
        status: response.statusCode,
        statusText: response.statusText,
        headers: response.headers,
        url: target.href,
        body,
      };
    } catch (error) {
      headersDone();
      done();
      if (watch.signal.aborted) throw undelivered(watch.signal.reason, sent.started);
      throw networkError(error, target.host, sent.started);
    }
  }

  private targetOf(request: EgressRequest): GuardedUrl {
    if (typeof request.url === 'string') return guardUrl(request.url, this.policy);
    const { origin, target } = request.url;
    const guarded = guardUrl(`${origin}/`, this.policy);
    // Appending "/" must have ended the authority: an origin with a path or query of its own is a mistake.
    if (guarded.target !== '/') throw refusal('url', 'malformed', guarded.host);
    if (!RAW_TARGET.test(target)) throw refusal('url', 'request_target', guarded.host);
    return { ...guarded, target, href: `${guarded.origin}${target}` };
  }

  private timeouts(): EgressTimeouts {
    return { headersMs: this.limits.headersMs, bodyIdleMs: this.limits.bodyIdleMs, totalMs: this.limits.totalMs };
  }

  private reporting<T>(check: () => T): T {
    try {
      return check();
    } catch (error) {
      throw this.counted(error);
    }
  }

  /** Tells the hook of a refusal, once. */
  private counted(error: unknown): unknown {
    if (isToolError(error) && error.code === 'EGRESS_REFUSED' && !this.told.has(error)) {
      this.told.add(error);
      this.onBlocked(error.details?.['layer'] as EgressLayer, error.details?.['reason'] as EgressReason);
    }
    return error;
  }

  private readonly told = new WeakSet<ToolError>();
}

/** Notes whether undici began to write the request: before that it provably never left. */
function noteStart(sent: { started: boolean }): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    const begin = handler.onRequestStart?.bind(handler);
    handler.onRequestStart = (controller, context) => {
      sent.started = true;
      begin?.(controller, context);
    };
    return dispatch(options, handler);
  };
}

function undelivered(reason: unknown, started: boolean): unknown {
  if (started || !isToolError(reason) || reason.code !== 'ATTEMPT_TIMED_OUT') return reason;
  return new ToolError(reason.code, {
    message: reason.message,
    details: { ...reason.details, delivered: false },
    cause: reason,
  });
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}
