import type { Readable } from 'node:stream';
import type { Clock } from '@toolfleet/resilience';
import type { Dialer } from './connector.js';
import type { BlockedHook } from './errors.js';
import type { EgressTimeouts } from './request-watch.js';
import type { Resolver } from './resolver.js';
import type { EgressBody } from './response-body.js';

/** What an egress client may reach, and how much of it. Everything but `allowlist` has the default named beside it. */
export interface EgressOptions {
  /** `host`, `*.host`, `host:port`, `http://host`; `*` only together with `allowAnyHost`. Empty: nothing but `allowedEndpoints`. */
  allowlist: readonly string[];
  /** Development flag that permits `*` in the allowlist. */
  allowAnyHost?: boolean;
  /** `EGRESS_ALLOWED_ENDPOINTS`: exact origins exempt from every check but those of the URL's form. None. */
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

/** Caps of a client: what one hostile upstream can take from a process. */
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

/** What holds where options say nothing. */
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

/** Wraps a request; `inUpstreamSpan` of libs/telemetry is one. */
export type OutgoingTrace = (
  request: { method: string; url: string },
  send: (headers: Readonly<Record<string, string>>) => Promise<EgressResponse>,
) => Promise<EgressResponse>;
