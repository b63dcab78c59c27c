import type { Readable } from 'node:stream';
import type { EgressTimeouts } from './request-watch.js';
import type { EgressBody } from './response-body.js';

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
