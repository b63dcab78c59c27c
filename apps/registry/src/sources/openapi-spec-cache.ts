import { createHash } from 'node:crypto';
import { isToolError } from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';
import { specError } from '@toolfleet/openapi';
import { SingleFlight } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';

/** A document as it was fetched. */
export interface FetchedSpec {
  text: string;
  /** The URL that answered, after redirects: relative servers resolve against it. */
  url: string;
  /** Of the text: equal hashes are equal documents, whatever the server says about its validators. */
  sha256: string;
  etag?: string;
  lastModified?: string;
}

/** Limits of a download. */
export interface SpecFetchLimits {
  maxBytes: number;
  timeoutMs: number;
}

/** Documents kept, and their size in all: a hundred of the largest would not fit into memory. */
const MAX_DOCUMENTS = 100;
const MAX_CHARS = 256 * 1024 * 1024;
const ACCEPT = 'application/json, application/yaml, application/vnd.oai.openapi, text/yaml, */*;q=0.5';

/**
 * OpenAPI documents by URL: fetched through the egress guard, revalidated by ETag or Last-Modified, one download at a
 * time for each URL.
 */
export class SpecCache {
  private readonly documents = new LRUCache<string, FetchedSpec>({
    max: MAX_DOCUMENTS,
    maxSize: MAX_CHARS,
    sizeCalculation: (spec) => Math.max(1, spec.text.length),
  });
  private readonly flights = new SingleFlight<FetchedSpec>();

  constructor(
    private readonly egress: EgressClient,
    private readonly limits: SpecFetchLimits,
  ) {}

  /** The document as it is now. @throws ToolError SPEC_INVALID with SPEC_FETCH_REFUSED or SPEC_TOO_LARGE */
  async get(url: string, signal: AbortSignal): Promise<FetchedSpec> {
    const { value } = await this.flights.join(url, signal, (flightSignal) => this.download(url, flightSignal));
    return value;
  }

  private async download(url: string, signal: AbortSignal): Promise<FetchedSpec> {
    const known = this.documents.get(url);
    const { timeoutMs, maxBytes } = this.limits;
    try {
      const response = await this.egress.request({
        url: url.split('#', 1)[0] as string,
        headers: {
          accept: ACCEPT,
          ...(known?.etag ? { 'if-none-match': known.etag } : {}),
          ...(known?.lastModified ? { 'if-modified-since': known.lastModified } : {}),
        },
        signal,
        maxBytes,
        timeouts: { headersMs: timeoutMs, bodyIdleMs: timeoutMs, totalMs: timeoutMs },
      });
      if (response.status === 304 && known) {
        response.body.cancel();
        return known;
      }
      if (response.status !== 200) {
        response.body.cancel();
        throw specError('SPEC_FETCH_REFUSED', `the document could not be fetched: HTTP ${response.status}`);
      }
      const text = await response.body.text();
      const spec: FetchedSpec = { text, url: response.url, sha256: sha256(text) };
      const { etag, 'last-modified': lastModified } = response.headers;
      if (typeof etag === 'string') spec.etag = etag;
      if (typeof lastModified === 'string') spec.lastModified = lastModified;
      this.documents.set(url, spec);
      return spec;
    } catch (error) {
      if (!isToolError(error) || error.code === 'SPEC_INVALID' || error.code === 'CANCELLED') throw error;
      if (error.code === 'RESULT_TOO_LARGE') {
        throw specError('SPEC_TOO_LARGE', `the document has more than ${maxBytes} bytes; raise OPENAPI_MAX_SPEC_SIZE`);
      }
      throw specError('SPEC_FETCH_REFUSED', `the document could not be fetched: ${error.message}`, error.details);
    }
  }
}

/** Hash of a document's text. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
