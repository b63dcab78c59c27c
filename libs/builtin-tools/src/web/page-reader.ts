import { isToolError, jsonObject, ToolError, type ErrorCode, type JsonObject } from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';
import htmlEncodingSniffer from 'html-encoding-sniffer';
import type { JobBounds } from '@toolfleet/resilience/child-pool';
import type { BoundedWork } from '../bounded/bounded-work.js';
import type { ExtractedPage, ExtractType } from './extract-page.js';
import type { Robots } from './robots.js';

/** A page as tools return it. */
export type ReadPage = JsonObject &
  Pick<ExtractedPage, 'title' | 'text' | 'links'> & {
    /** URL that responded, after redirects. */
    url: string;
    status: number;
    content_type: string;
  };

/** Time limit of reading a page. A page of 3 MiB takes about a second. */
const READ_MS = 8_000;
const MAX_BYTES = 3 * 1024 * 1024;
/** Characters of an error page quoted in the error message. */
const SHOWN_ERROR = 200;
const TEXT_TYPES = /^(?:text\/|application\/(?:json|[\w.+-]*\+json|javascript|x-ndjson|yaml|x-yaml|toml))/;

/** Errors caused by a page that is unreachable, slow or broken. */
const PAGE_ERRORS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'NETWORK_ERROR',
  'UPSTREAM_ERROR',
  'ATTEMPT_TIMED_OUT',
]);

/** The caller of a read: its signal and tenant. */
type PageCaller = Omit<JobBounds, 'timeoutMs'>;

/** Fetches pages through the egress client and reads HTML, PDF and text. */
export class PageReader {
  constructor(
    private readonly egress: EgressClient,
    private readonly bounded: BoundedWork,
    /** Undefined: robots.txt is ignored. */
    private readonly robots: Robots | undefined,
    private readonly readMs = READ_MS,
  ) {}

  /** @throws ToolError EGRESS_REFUSED, NETWORK_ERROR, UPSTREAM_ERROR (`HTTP 404: …`), TOOL_ERROR */
  async read(address: string, what: ExtractType, caller: PageCaller): Promise<ReadPage> {
    try {
      return await this.fetchPage(address, what, caller);
    } catch (error) {
      // The caller chose the address: its failure says nothing about the tool, and the gateway's breaker ignores it. A caller that requests
      // dead hosts would otherwise open the breaker for all callers.
      throw isToolError(error) && PAGE_ERRORS.has(error.code) ? error.withFacts({ blame: 'caller' }) : error;
    }
  }

  private async fetchPage(address: string, what: ExtractType, caller: PageCaller): Promise<ReadPage> {
    const { signal } = caller;
    const url = checkUrl(address);
    this.egress.check(url); // refuse before any request, including that for robots.txt
    await this.robots?.check(url, caller);
    const response = await this.egress.request({
      url,
      signal,
      maxBytes: MAX_BYTES,
      headers: { accept: 'text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.8,*/*;q=0.5' },
    });
    // A redirect may have led to another site with its own robots.txt.
    if (new URL(response.url).origin !== new URL(url).origin) {
      await this.robots?.check(response.url, caller).catch((error: unknown) => {
        response.body.cancel();
        throw error;
      });
    }
    const type = single(response.headers['content-type']).toLowerCase();
    const bytes = await response.body.bytes();
    if (response.status >= 400)
      throw toHttpError(response.status, bytes, type, single(response.headers['retry-after']));
    const head = { url: response.url, status: response.status, content_type: type };
    const content = await this.content(bytes, type, response.url, what, caller);
    return { ...head, ...content } as ReadPage;
  }

  private async content(
    bytes: Buffer,
    type: string,
    url: string,
    what: ExtractType,
    caller: PageCaller,
  ): Promise<JsonObject> {
    const bounds = { timeoutMs: this.readMs, ...caller };
    if (type.includes('pdf') || bytes.subarray(0, 5).toString('latin1') === '%PDF-') {
      const pdf = await this.bounded.run({ kind: 'pdf', bytes: bytes.toString('base64') }, bounds);
      return what === 'links' ? { title: pdf.title, links: [] } : { ...pdf };
    }
    const xml = /[/+]xml\b/.test(type) && !type.includes('xhtml');
    if (type === '' || type.includes('html') || (xml && !type.includes('svg'))) {
      const html = decodePage(bytes, type, xml ? 'xml' : 'html');
      return jsonObject(await this.bounded.run({ kind: 'page', html, url, what }, bounds));
    }
    if (!TEXT_TYPES.test(type))
      throw new ToolError('TOOL_ERROR', {
        message: `Cannot read content of type ${type.split(';')[0]}`,
        details: { reason: 'content_type' },
      });
    const text = decodePage(bytes, type, 'text');
    return what === 'links' ? { title: '', links: [] } : { title: '', text };
  }
}

/** The URL without fragment. @throws ToolError unless it is http(s); the egress guard checks the rest */
function checkUrl(address: string): string {
  if (!/^https?:\/\//i.test(address))
    throw new ToolError('TOOL_ERROR', {
      message: `Not a web address: ${JSON.stringify(address.slice(0, 100))} (write https://…)`,
    });
  return address.split('#', 1)[0] as string;
}

function toHttpError(status: number, bytes: Buffer, type: string, retryAfter: string): ToolError {
  const text = decodePage(bytes.subarray(0, 4_000), type, 'text')
    .replaceAll(/<[^>]{0,500}>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
  const seconds = /^\d{1,5}$/.test(retryAfter) ? Number(retryAfter) : undefined;
  return new ToolError('UPSTREAM_ERROR', {
    message: `HTTP ${status}: ${text.slice(0, SHOWN_ERROR)}`,
    details: { status },
    retryAfterMs: seconds === undefined ? undefined : seconds * 1_000,
  });
}

function single(value: string | string[] | undefined): string {
  return (Array.isArray(value) ? value[0] : value) ?? '';
}

/**
 * Decodes the bytes of a page by BOM, Content-Type and `<meta>`, in this order (HTML Standard, 13.2.3.2); unknown encodings as
 * UTF-8.
 */
export function decodePage(bytes: Uint8Array, contentType: string, kind: 'html' | 'xml' | 'text'): string {
  const label = /charset\s*=\s*"?([^\s";]+)/i.exec(contentType)?.[1];
  const encoding = htmlEncodingSniffer(bytes, {
    transportLayerEncodingLabel: label,
    // Without a declaration the standard assumes windows-1252; today such a page is UTF-8 if it is valid UTF-8.
    xml: kind === 'xml',
    defaultEncoding: kind === 'xml' || isUtf8(bytes) ? 'utf-8' : 'windows-1252',
    maxPrescanBytes: kind === 'html' ? 4_096 : undefined,
  });
  try {
    return new TextDecoder(encoding).decode(bytes);
  } catch {
    return new TextDecoder().decode(bytes); // x-user-defined, replacement
  }
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}
