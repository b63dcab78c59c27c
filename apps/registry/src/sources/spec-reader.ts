import { createHash } from 'node:crypto';
import { readFile, realpath, stat } from 'node:fs/promises';
import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isToolError, type Milliseconds, type ToolError } from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';
import { specError } from '@toolfleet/openapi';
import { SingleFlight } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';
import type { OpenApiEntry } from '@toolfleet/fleet-file';

/** The text of an OpenAPI document. */
export interface LoadedSpec {
  text: string;
  /** The URL that answered, after redirects; relative servers resolve against it. Empty for inline documents and files. */
  url: string;
  /** SHA-256 of the text. Equal hashes mean equal documents, whatever the server's validators say. */
  sha256: string;
  etag?: string;
  lastModified?: string;
}

/** Limits and places of documents (`OPENAPI_*` settings). */
export interface SpecReaderOptions {
  maxSpecBytes: number;
  fetchTimeoutMs: Milliseconds;
  /** Registrations may name files below this directory; undefined refuses all files. */
  specDirectory?: string;
}

/** Bounds of the document cache. A hundred documents of the largest size would not fit into memory. */
const MAX_DOCUMENTS = 100;
const MAX_CHARS = 256 * 1024 * 1024;
const ACCEPT = 'application/json, application/yaml, application/vnd.oai.openapi, text/yaml, */*;q=0.5';

/**
 * Reads OpenAPI documents that are inline in an entry, behind a URL or in a file. Downloads go through the egress guard, one at a
 * time per URL, and are revalidated by ETag or Last-Modified.
 */
export class SpecReader {
  private readonly documents = new LRUCache<string, LoadedSpec>({
    max: MAX_DOCUMENTS,
    maxSize: MAX_CHARS,
    sizeCalculation: (spec) => Math.max(1, spec.text.length),
  });
  private readonly downloads = new SingleFlight<LoadedSpec>();

  constructor(
    private readonly egress: EgressClient,
    private readonly options: SpecReaderOptions,
  ) {}

  /**
   * @param trusted the entry is from the operator's configuration file and may name any file of this machine
   * @throws ToolError SPEC_INVALID with the reason SPEC_FETCH_REFUSED or SPEC_TOO_LARGE; errors of the egress guard
   */
  async read(
    entry: Pick<Partial<OpenApiEntry>, 'spec_inline' | 'spec_url' | 'spec_path'>,
    trusted: boolean,
    signal: AbortSignal,
  ): Promise<LoadedSpec> {
    if (entry.spec_inline) return { text: entry.spec_inline, url: '', sha256: sha256(entry.spec_inline) };
    const url = entry.spec_url ?? '';
    if (/^https?:/i.test(url)) {
      const { value } = await this.downloads.join(url, signal, (sharedSignal) => this.download(url, sharedSignal));
      return value;
    }
    const file = entry.spec_path ?? (/^file:/i.test(url) ? fileURLToPath(url) : undefined);
    if (file === undefined) throw specError('SPEC_FETCH_REFUSED', 'spec_url must be an http, https or file URL');
    return this.readFile(file, trusted);
  }

  private async download(url: string, signal: AbortSignal): Promise<LoadedSpec> {
    const known = this.documents.get(url);
    const { fetchTimeoutMs: timeoutMs, maxSpecBytes: maxBytes } = this.options;
    const headers: Record<string, string> = { accept: ACCEPT };
    if (known?.etag) headers['if-none-match'] = known.etag;
    if (known?.lastModified) headers['if-modified-since'] = known.lastModified;
    try {
      const response = await this.egress.request({
        url: url.split('#', 1)[0] as string,
        headers,
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
      const spec: LoadedSpec = { text, url: response.url, sha256: sha256(text) };
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

  private async readFile(file: string, trusted: boolean): Promise<LoadedSpec> {
    const { specDirectory, maxSpecBytes } = this.options;
    try {
      const real = await realpath(file);
      const root = specDirectory === undefined ? undefined : await realpath(specDirectory);
      if (!trusted && (root === undefined || !real.startsWith(root + sep))) throw fileRefused();
      if ((await stat(real)).size > maxSpecBytes) {
        throw specError('SPEC_TOO_LARGE', `the document has more than ${maxSpecBytes} bytes`);
      }
      const text = await readFile(real, 'utf8');
      return { text, url: '', sha256: sha256(text) };
    } catch (error) {
      if (isToolError(error)) throw error;
      // The same error as for a refused file, so that registrations cannot probe which files exist.
      if (!trusted) throw fileRefused();
      throw specError('SPEC_FETCH_REFUSED', `the document cannot be read: ${(error as Error).message}`);
    }
  }
}

function fileRefused(): ToolError {
  return specError('SPEC_FETCH_REFUSED', 'documents on this machine are read from OPENAPI_SPEC_DIR only');
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
