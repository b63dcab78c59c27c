import { isToolError, ToolError, type ErrorCode, type JsonObject } from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';
import htmlEncodingSniffer from 'html-encoding-sniffer';
import type { BoundedWork, JobBounds } from '../bounded/bounded-work.js';
import type { ExtractedPage } from './extract-page.js';
import type { ExtractedPdf } from './extract-pdf.js';
import type { Robots } from './robots.js';

/** What can be read from a page. */
export const EXTRACT_TYPES = ['text', 'links', 'structured'] as const;
export type ExtractType = (typeof EXTRACT_TYPES)[number];

/** A page as tools return it. */
export interface ReadPage extends JsonObject {
  /** Address that answered, after redirects. */
  url: string;
  status: number;
  content_type: string;
  title: string;
}

/** Reading a page of 3 MiB takes about a second; a page that needs longer is hostile or not worth it. */
const READ_MS = 8_000;
const MAX_BYTES = 3 * 1024 * 1024;
/** As much of an error page as an error message quotes. */
const SHOWN_ERROR = 200;
const TEXT_TYPES = /^(?:text\/|application\/(?:json|[\w.+-]*\+json|javascript|x-ndjson|yaml|x-yaml|toml))/;

/** For whom a page is read. */
export type PageCaller = Omit<JobBounds, 'timeoutMs'>;

/** Fetches a page through the guarded way out and reads it: HTML, PDF, text. */
export class PageReader {
  constructor(
    private readonly egress: EgressClient,
    private readonly bounded: BoundedWork,
    /** Absent: robots.txt is not asked. */
    private readonly robots: Robots | undefined,
    private readonly readMs = READ_MS,
  ) {}

  /** @throws ToolError EGRESS_REFUSED, NETWORK_ERROR, UPSTREAM_ERROR (`HTTP 404: …`), TOOL_ERROR */
  read(address: string, what: ExtractType, caller: PageCaller): Promise<ReadPage> {
    return atCallersChoice(() => this.fetched(address, what, caller));
  }

  private async fetched(address: string, what: ExtractType, caller: PageCaller): Promise<ReadPage> {
    const { signal } = caller;
    const url = checkedUrl(address);
    this.egress.check(url); // refused before anybody is asked, robots.txt included
    await this.robots?.check(url, caller);
    const response = await this.egress.request({
      url,
      signal,
      maxBytes: MAX_BYTES,
      headers: { accept: 'text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.8,*/*;q=0.5' },
    });
    // A redirect may have led to another site, with wishes of its own.
    if (new URL(response.url).origin !== new URL(url).origin) {
      await this.robots?.check(response.url, caller).catch((error: unknown) => {
        response.body.cancel();
        throw error;
      });
    }
    const type = single(response.headers['content-type']).toLowerCase();
    const bytes = await response.body.bytes();
    if (response.status >= 400) throw failed(response.status, bytes, type, single(response.headers['retry-after']));
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
      const pdf = (await this.bounded.run(
        { kind: 'pdf', bytes: bytes.toString('base64') },
        bounds,
      )) as unknown as ExtractedPdf;
      return what === 'links' ? { title: pdf.title, links: [] } : { ...pdf };
    }
    const xml = /[/+]xml\b/.test(type) && !type.includes('xhtml');
    if (type === '' || type.includes('html') || (xml && !type.includes('svg'))) {
      const html = decodePage(bytes, type, xml ? 'xml' : 'html');
      const page = await this.bounded.run({ kind: 'page', html, url, what }, bounds);
      return { ...(page as unknown as ExtractedPage) } as unknown as JsonObject;
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

/** Absolute http(s) URL without fragment; what else is wrong with it the egress guard says. */
function checkedUrl(address: string): string {
  if (!/^https?:\/\//i.test(address))
    throw new ToolError('TOOL_ERROR', {
      message: `Not a web address: ${JSON.stringify(address.slice(0, 100))} (write https://…)`,
    });
  return address.split('#', 1)[0] as string;
}

function failed(status: number, bytes: Buffer, type: string, retryAfter: string): ToolError {
  const text = decodePage(bytes.subarray(0, 4_000), type, 'text')
    .replaceAll(/<[^>]{0,500}>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
  const seconds = /^\d{1,5}$/.test(retryAfter) ? Number(retryAfter) : undefined;
  return new ToolError('UPSTREAM_ERROR', {
    message: `HTTP ${status}: ${text.slice(0, SHOWN_ERROR)}`,
    details: { status },
    ...(seconds === undefined ? {} : { retryAfterMs: seconds * 1_000 }),
  });
}

function single(value: string | string[] | undefined): string {
  return (Array.isArray(value) ? value[0] : value) ?? '';
}

/** Text of a page's bytes, by BOM, Content-Type, `<meta>` in this order (HTML Standard, 13.2.3.2); unknown ones as UTF-8. */
export function decodePage(bytes: Uint8Array, contentType: string, kind: 'html' | 'xml' | 'text'): string {
  const label = /charset\s*=\s*"?([^\s";]+)/i.exec(contentType)?.[1];
  const encoding = htmlEncodingSniffer(bytes, {
    ...(label ? { transportLayerEncodingLabel: label } : {}),
    // The standard's windows-1252 is for pages without any declaration; today such a page is UTF-8, if it is valid UTF-8.
    ...(kind === 'xml' ? { xml: true } : { defaultEncoding: isUtf8(bytes) ? 'utf-8' : 'windows-1252' }),
    ...(kind === 'html' ? { maxPrescanBytes: 4_096 } : {}),
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

/** What a page that is away, slow or broken looks like. */
const FAULTS_OF_A_PAGE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'NETWORK_ERROR',
  'UPSTREAM_ERROR',
  'ATTEMPT_TIMED_OUT',
]);

/**
 * Marks faults of an address the caller chose (`details.target: "chosen_by_caller"`): they say nothing about the tool, and
 * the gateway does not count them for its breaker. Else whoever asks for dead hosts would close the tool for everyone.
 */
export async function atCallersChoice<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isToolError(error) || !FAULTS_OF_A_PAGE.has(error.code)) throw error;
    throw new ToolError(error.code, {
      message: error.message,
      details: { ...error.details, target: 'chosen_by_caller' },
      cause: error.cause,
      ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
    });
  }
}
