import { readFile, realpath, stat } from 'node:fs/promises';
import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isToolError, type Milliseconds, type ToolError } from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';
import { specError } from '@toolfleet/openapi';
import type { OpenApiEntry } from './openapi-entry.js';
import { sha256, SpecCache, type FetchedSpec } from './openapi-spec-cache.js';

/** Limits of reading (`OPENAPI_SOURCE_KEYS`). */
export interface SpecReaderFigures {
  maxSpecBytes: number;
  fetchTimeoutMs: Milliseconds;
  /** Registrations may name files below this directory; without it none. */
  specDirectory?: string;
}

/** Where a document stands: in the entry itself, behind a URL, or in a file. */
export type SpecPlace = Pick<Partial<OpenApiEntry>, 'spec_inline' | 'spec_url' | 'spec_path'>;

/** Reads OpenAPI documents from wherever an entry says they are. */
export class SpecReader {
  readonly #fetched: SpecCache;

  constructor(
    egress: EgressClient,
    private readonly figures: SpecReaderFigures,
  ) {
    this.#fetched = new SpecCache(egress, { maxBytes: figures.maxSpecBytes, timeoutMs: figures.fetchTimeoutMs });
  }

  /**
   * @param trusted an entry of the operator's own file, which may name any document on this machine
   * @throws ToolError SPEC_INVALID with the reason SPEC_FETCH_REFUSED or SPEC_TOO_LARGE, and what the way out refuses
   */
  async read(place: SpecPlace, trusted: boolean, signal: AbortSignal): Promise<FetchedSpec> {
    if (place.spec_inline) return { text: place.spec_inline, url: '', sha256: sha256(place.spec_inline) };
    const url = place.spec_url ?? '';
    if (/^https?:/i.test(url)) return this.#fetched.get(url, signal);
    const file = place.spec_path ?? (/^file:/i.test(url) ? fileURLToPath(url) : undefined);
    if (file === undefined) throw specError('SPEC_FETCH_REFUSED', 'spec_url has to be an http, https or file URL');
    return this.#readFile(file, trusted);
  }

  async #readFile(file: string, trusted: boolean): Promise<FetchedSpec> {
    const { specDirectory, maxSpecBytes } = this.figures;
    try {
      const real = await realpath(file);
      const root = specDirectory === undefined ? undefined : await realpath(specDirectory);
      if (!trusted && (root === undefined || !real.startsWith(root + sep))) throw outside();
      if ((await stat(real)).size > maxSpecBytes) {
        throw specError('SPEC_TOO_LARGE', `the document has more than ${maxSpecBytes} bytes`);
      }
      const text = await readFile(real, 'utf8');
      return { text, url: '', sha256: sha256(text) };
    } catch (error) {
      if (isToolError(error)) throw error;
      if (!trusted) throw outside(); // the same answer for what is not there: names of files are nobody's business
      throw specError('SPEC_FETCH_REFUSED', `the document cannot be read: ${(error as Error).message}`);
    }
  }
}

function outside(): ToolError {
  return specError('SPEC_FETCH_REFUSED', 'documents on this machine are read from OPENAPI_SPEC_DIR only');
}
