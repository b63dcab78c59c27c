import { Readable } from 'node:stream';
import { SystemClock, type CodedError, type Clock } from '@toolfleet/base';
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
import { EgressRefusal, networkError, refusal, type BlockedHook } from './errors.js';
import { redirectHeaders, requestHeaders } from './request-headers.js';
import { RequestTimeouts } from './request-timeouts.js';
import { CachingResolver, SystemResolver } from './resolver.js';
import { ACCEPTED_ENCODINGS, EgressBody } from './response-body.js';
import { joinHeader, ResponseReceiver, type ResponseHead } from './response-receiver.js';
import {
  Allowlist,
  endpointOrigin,
  guardUrl,
  isRedirect,
  redirectTarget,
  type GuardedUrl,
  type OriginSet,
  type UrlPolicy,
} from './url-guard.js';

const originSet = (origins: EgressOptions['allowedEndpoints'] = []): OriginSet =>
  'has' in origins ? origins : new Set(origins.map(endpointOrigin));

/** A request target in origin-form (RFC 9112, 3.2.1): visible ASCII without a fragment. */
const RAW_TARGET = /^\/[\u0021-\u0022\u0024-\u005b\u005d-\u007e]*$/;

/**
 * Sends outgoing HTTP requests: `guardUrl` checks the URL and every redirect, the connector checks the
 * resolved addresses and dials exactly those, and responses are limited in time and size. A refusal is EGRESS_REFUSED with
 * `layer` and `reason`; other failures are NETWORK_ERROR, ATTEMPT_TIMED_OUT, RESULT_TOO_LARGE or CANCELLED. Proxy
 * environment variables are ignored.
 */
export class EgressClient {
  private readonly policy: UrlPolicy;
  private readonly limits: EgressLimits;
  private readonly clock: Clock;
  private readonly pools: ConnectionPools;
  private readonly onBlocked: BlockedHook;
  private readonly userAgent: string;
  private readonly trace: OutgoingTrace | undefined;

  /** @throws CodedError REQUEST_INVALID for a malformed allowlist entry, endpoint or address range */
  constructor(options: EgressOptions) {
    this.policy = {
      allowlist: new Allowlist(options.allowlist, options.allowAnyHost),
      allowlistKey: options.allowlistKey,
      schemes: options.schemes ?? ['https'],
      allowedEndpoints: originSet(options.allowedEndpoints),
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

  /** Checks a URL without sending anything, for registration and configuration. @throws CodedError EGRESS_REFUSED */
  check(url: string): GuardedUrl {
    return this.reportRefusal(() => guardUrl(url, this.policy));
  }

  /** Sends a request. Resolves once the response headers have arrived; the body is still streaming then. */
  async request(request: EgressRequest): Promise<EgressResponse> {
    const target = this.reportRefusal(() => this.guardTarget(request));
    if (!this.trace) return this.follow(request, target);
    const { method = 'GET', url } = request;
    const span = { method: method.toUpperCase(), url: typeof url === 'string' ? url : url.origin };
    return this.trace(span, (headers) =>
      this.follow({ ...request, headers: { ...request.headers, ...headers } }, target),
    );
  }

  private async follow(request: EgressRequest, first: GuardedUrl): Promise<EgressResponse> {
    let target = first;
    let headers = this.reportRefusal(() => requestHeaders(request.headers ?? {}));
    const method = (request.method ?? 'GET').toUpperCase();
    const follow = (method === 'GET' || method === 'HEAD') && request.followRedirects !== false;
    const timeouts = new RequestTimeouts(
      this.clock,
      { ...this.limits, ...request.timeouts },
      request.signal,
      target.host,
    );
    try {
      for (let redirects = 0; ; redirects += 1) {
        const { head, receiver, done } = await this.send(target, method, headers, request.body, timeouts);
        const location = joinHeader(head.headers['location']);
        if (!follow || !isRedirect(head.status, location)) {
          const encoding = method === 'HEAD' ? '' : (joinHeader(head.headers['content-encoding']) ?? '');
          const { maxBytes = this.limits.maxBytes, onOverflow = 'error' } = request;
          const limits = { maxBytes, onOverflow, maxRatio: this.limits.maxRatio };
          const body = new EgressBody(receiver, encoding, limits, timeouts, target.host, done);
          return { ...head, url: target.href, redirects, body };
        }
        if (!receiver.ended) receiver.stop(new Error('The body of a redirect is not read'));
        done();
        const from = target;
        target = this.reportRefusal(() => {
          if (redirects >= this.limits.maxRedirects) throw refusal('redirect', 'too_many_redirects', from.host);
          return redirectTarget(location, from, this.policy);
        });
        headers = redirectHeaders(headers, from, target);
      }
    } catch (error) {
      timeouts.end();
      throw this.reported(error);
    }
  }

  /** Closes all connections; requests in flight fail. */
  async close(): Promise<void> {
    await this.pools.close();
  }

  /** Open sockets of all origins, for tests. */
  get openConnections(): number {
    return this.pools.openConnections;
  }

  /** Sends one request. Call `done` once the body of its response has ended. */
  private async send(
    target: GuardedUrl,
    method: string,
    headers: Record<string, string>,
    body: EgressRequest['body'],
    timeouts: RequestTimeouts,
  ): Promise<{ head: ResponseHead; receiver: ResponseReceiver; done: () => void }> {
    const { pool, done } = this.pools.use(target);
    const receiver = new ResponseReceiver();
    const headersDone = timeouts.awaitHeaders();
    try {
      timeouts.throwIfStopped();
      timeouts.response = receiver;
      pool.dispatch(
        {
          path: target.target,
          method: method as Dispatcher.HttpMethod,
          headers: { 'user-agent': this.userAgent, 'accept-encoding': ACCEPTED_ENCODINGS, ...headers },
          body: body ?? null,
          // A connection has one request at a time (`ConnectionPools`), so none waits for these headers.
          blocking: false,
        },
        receiver,
      );
      const head = await receiver.head;
      headersDone();
      return { head, receiver, done };
    } catch (error) {
      headersDone();
      done();
      if (body instanceof Readable) body.on('error', () => undefined).destroy();
      if (timeouts.stopped) throw withDelivery(timeouts.stopped, receiver.started);
      throw networkError(error, target.host, receiver.started);
    }
  }

  private guardTarget(request: EgressRequest): GuardedUrl {
    if (typeof request.url === 'string') return guardUrl(request.url, this.policy);
    const { origin, target } = request.url;
    const guarded = guardUrl(`${origin}/`, this.policy);
    // The appended "/" must be the whole path: an origin must not have a path or query of its own.
    if (guarded.target !== '/') throw refusal('url', 'malformed', guarded.host);
    if (!RAW_TARGET.test(target)) throw refusal('url', 'request_target', guarded.host);
    return { ...guarded, target, href: `${guarded.origin}${target}` };
  }

  private reportRefusal<T>(check: () => T): T {
    try {
      return check();
    } catch (error) {
      throw this.reported(error);
    }
  }

  /** Calls the hook for a refusal, once per error although nested calls pass it on, and returns the error. */
  private reported(error: unknown): unknown {
    if (error instanceof EgressRefusal && !this.reportedErrors.has(error)) {
      this.reportedErrors.add(error);
      this.onBlocked(error.layer, error.reason);
    }
    return error;
  }

  private readonly reportedErrors = new WeakSet<CodedError>();
}

/** Marks a time-out before the request was written as undelivered, so that it may be retried. */
function withDelivery(reason: CodedError, started: boolean): CodedError {
  if (started || reason.code !== 'ATTEMPT_TIMED_OUT') return reason;
  return reason.withFacts({ delivered: false });
}
