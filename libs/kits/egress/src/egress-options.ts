import type { Readable } from 'node:stream';
import type { Clock } from '@toolfleet/base';
import type { Dialer } from './connector.js';
import type { BlockedHook } from './errors.js';
import type { EgressTimeouts } from './request-timeouts.js';
import type { Resolver } from './resolver.js';
import type { EgressBody } from './response-body.js';
import type { ResponseHead } from './response-receiver.js';
import type { OriginSet } from './url-guard.js';

/** Configures the reach of an egress client, and its limits. Comments name the defaults. */
export interface EgressOptions {
  /** `host`, `*.host`, `host:port`, `http://host`; `*` only with `allowAnyHost`. If empty, only `allowedEndpoints` can be reached. */
  allowlist: readonly string[];
  /** Key of the setting that it comes from; refusals of other hosts name it. */
  allowlistKey?: string | undefined;
  /** Development flag that permits `*` in the allowlist. Default false. */
  allowAnyHost?: boolean;
  /** Exact origins that only need a well-formed URL: a list, or a set that may change. Default none. */
  allowedEndpoints?: readonly string[] | OriginSet;
  /** Schemes for every listed host; default `https`. An entry `http://host` allows plain HTTP to that host. */
  schemes?: readonly ('https' | 'http')[];
  /** Pod, service and node ranges of the cluster, refused in addition to private ranges. Default none. */
  deniedCidrs?: readonly string[];
  resolver?: Resolver;
  dialer?: Dialer;
  clock?: Clock;
  /** Wraps each request in a span and adds the trace headers. */
  trace?: OutgoingTrace;
  /** Called for every refusal; feeds the metric. */
  onBlocked?: BlockedHook;
  limits?: Partial<EgressLimits>;
  /** `User-Agent` of requests that have none; default `toolfleet`. */
  userAgent?: string;
}

/** Limits of a client against hostile upstreams. */
export interface EgressLimits extends EgressTimeouts {
  /** Decompressed bytes of a response: 3 MiB. */
  maxBytes: number;
  /** Decompressed bytes per received byte: 200. */
  maxRatio: number;
  /** Response headers: 32 KiB. */
  maxHeaderBytes: number;
  /** Sockets of all origins: 100. */
  totalConnections: number;
  /** Sockets per origin: 10. */
  connectionsPerHost: number;
  /** Resolving, waiting for a free connection and the handshake: 10 s. */
  connectMs: number;
  /** Idle sockets are closed after 4 s. */
  keepAliveMs: number;
  /** Resolved addresses are cached for 300 s; each dial checks them again. */
  dnsCacheMs: number;
  /** Maximum number of redirects followed: 3. */
  maxRedirects: number;
}

/** The defaults of {@link EgressLimits}. */
export const DEFAULT_LIMITS: EgressLimits = {
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

/** A request. Unset limits are the client's. */
export interface EgressRequest {
  /** An absolute URL, or an origin with the request target as exact bytes for no parser to normalize. */
  url: string | { origin: string; target: string };
  method?: string;
  headers?: Readonly<Record<string, string>>;
  /** A stream is sent once; only GET and HEAD follow redirects. */
  body?: string | Uint8Array | Readable | null;
  signal?: AbortSignal;
  timeouts?: Partial<EgressTimeouts>;
  maxBytes?: number;
  onOverflow?: 'error' | 'truncate';
  /** For GET and HEAD; default true. If false, the 3xx response is returned. */
  followRedirects?: boolean;
}

/** A response with a streaming body. Always read or cancel `body`, otherwise the connection stays in use. */
export interface EgressResponse extends ResponseHead {
  /** The URL that answered. */
  url: string;
  redirects: number;
  body: EgressBody;
}

/** Wraps a request in a span, and passes the headers of the trace to `send`. */
export type OutgoingTrace = (
  request: { method: string; url: string },
  send: (headers: Readonly<Record<string, string>>) => Promise<EgressResponse>,
) => Promise<EgressResponse>;
