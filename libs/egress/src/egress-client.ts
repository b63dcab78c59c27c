import { isToolError, ToolError } from '@toolfleet/contracts';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import type { Dispatcher } from 'undici';
import { AddressGuard } from './address-guard.js';
import { ConnectionPools } from './connection-pools.js';
import { SystemDialer } from './connector.js';
import {
  DEFAULT_LIMITS,
  type EgressLimits,
  type EgressOptions,
  type EgressRequest,
  type EgressResponse,
  type OutgoingTrace,
} from './egress-options.js';
import { networkError, refusal, type BlockedHook, type EgressLayer, type EgressReason } from './errors.js';
import { redirectHeaders, requestHeaders } from './request-headers.js';
import { RequestWatch, type EgressTimeouts } from './request-watch.js';
import { CachingResolver, SystemResolver } from './resolver.js';
import { ACCEPTED_ENCODINGS, EgressBody } from './response-body.js';
import {
  Allowlist,
  endpointOrigin,
  guardUrl,
  isRedirect,
  redirectTarget,
  type GuardedUrl,
  type UrlPolicy,
} from './url-guard.js';

/** The request target as bytes: origin-form (RFC 9112 3.2.1) of visible ASCII without a fragment. */
const RAW_TARGET = /^\/[\u0021-\u0022\u0024-\u005b\u005d-\u007e]*$/;

/**
 * The only way out of the fleet: allowlist, address guard, pinned connections, capped responses.
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
