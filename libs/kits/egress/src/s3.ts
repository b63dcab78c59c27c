import { randomUUID } from 'node:crypto';
import { AwsClient } from 'aws4fetch';
import { CodedError } from '@toolfleet/base';

/** One object of a bucket's listing. */
interface ListedObject {
  key: string;
  size: number;
  modifiedAt: number;
}

/** An S3-compatible bucket. */
export interface S3Options {
  /** e.g. `https://s3.eu-central-1.amazonaws.com` or a MinIO server; the bucket follows as first name of the path. */
  endpoint: string;
  bucket: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** Before every key, e.g. `workspaces/`. */
  prefix?: string;
  /** A guarded `fetch` (libs/kits/egress). */
  fetch: typeof fetch;
}

/** Signed requests to one S3-compatible bucket. Keys are relative to the prefix. */
export class S3Bucket {
  private readonly signer: AwsClient;
  private conditions: Promise<void> | undefined;

  constructor(private readonly options: S3Options) {
    const { accessKeyId, secretAccessKey, region } = options;
    this.signer = new AwsClient({ accessKeyId, secretAccessKey, region, service: 's3', retries: 0 });
  }

  /**
   * Tests once, before the first conditional write, that the bucket honors `If-None-Match` and `If-Match`: one that ignores
   * them would lose concurrent edits silently.
   * @throws CodedError EXECUTION_FAILED when it ignores one
   */
  conditionsKept(): Promise<void> {
    this.conditions ??= this.tryConditions().catch((error: unknown) => {
      this.conditions = undefined;
      throw error;
    });
    return this.conditions;
  }

  private async tryConditions(): Promise<void> {
    const key = `.toolfleet-conditions-${randomUUID()}`;
    const put = (condition: Record<string, string>) => this.send('PUT', key, Buffer.from('x'), condition);
    const first = await put({ 'if-none-match': '*' });
    if (!first.ok) throw unavailable(first.status);
    const again = await put({ 'if-none-match': '*' });
    const changed = await put({ 'if-match': '"0"' });
    await this.delete(key);
    if (!again.ok && !changed.ok) return;
    const ignored = again.ok ? 'If-None-Match' : 'If-Match';
    const message = `The bucket ignores ${ignored} of PUT: edits and added lines would be lost; it needs an S3 server that keeps conditions`;
    throw new CodedError('EXECUTION_FAILED', { message });
  }

  async delete(key: string): Promise<void> {
    const response = await this.send('DELETE', key);
    if (!response.ok && response.status !== 404) throw unavailable(response.status);
  }

  /** Keys that begin with `start`, in byte order, by ListObjectsV2. */
  async keys(start: string, all: boolean, limit: number): Promise<ListedObject[]> {
    const found: ListedObject[] = [];
    const prefix = this.options.prefix ?? '';
    for (let token: string | undefined; ;) {
      const query = new URLSearchParams({
        'list-type': '2',
        prefix: prefix + start,
        'max-keys': String(Math.min(1_000, limit)),
      });
      if (token !== undefined) query.set('continuation-token', token);
      const response = await this.send('GET', undefined, undefined, {}, `?${query}`);
      if (!response.ok) throw unavailable(response.status);
      const { objects, next } = readListing(await response.text());
      for (const object of objects) found.push({ ...object, key: object.key.slice(prefix.length) });
      token = next;
      if (!all || token === undefined || found.length >= limit) return found.slice(0, limit);
    }
  }

  /** One request; without a key it goes to the bucket itself. @throws RangeError for a key that a URL would shorten: `a/../b` */
  async send(
    method: string,
    key?: string,
    body?: Uint8Array,
    headers: Record<string, string> = {},
    query = '',
  ): Promise<Response> {
    const { endpoint, bucket, prefix = '' } = this.options;
    const segments = key === undefined ? [] : ['', ...(prefix + key).split('/')];
    if (segments.some((segment) => /^\.\.?$/.test(segment))) throw new RangeError(`the key ${key} leaves its folder`);
    const path = segments.map(encodeURIComponent).join('/');
    const url = `${endpoint.replace(/\/$/, '')}/${bucket}${path}${query}`;
    const content = body && Buffer.from(body);
    const signed = await this.signer.sign(url, { method, headers, body: content });
    return this.options.fetch(signed.url, { method, headers: signed.headers, body: content });
  }
}

/** The error for a status that the caller does not expect. */
export function unavailable(status: number): CodedError {
  return new CodedError('NETWORK_ERROR', { message: `The file storage answered ${status}` });
}

/** A page of `ListObjectsV2`. */
interface Listing {
  objects: ListedObject[];
  /** Asks for the next page; undefined on the last one. */
  next: string | undefined;
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/**
 * Reads the answer of `ListObjectsV2`: flat elements without attributes of interest, from a server
 * that the operator chose; a whole XML parser is not worth its size.
 */
function readListing(xml: string): Listing {
  const objects = [...xml.matchAll(/<Contents>(.*?)<\/Contents>/gs)].map(([, content = '']) => ({
    key: field(content, 'Key'),
    size: Number(field(content, 'Size')) || 0,
    modifiedAt: Date.parse(field(content, 'LastModified')) || 0,
  }));
  const next = field(xml.replaceAll(/<Contents>.*?<\/Contents>/gs, ''), 'NextContinuationToken');
  return { objects, next: next === '' ? undefined : next };
}

function field(xml: string, name: string): string {
  const start = xml.indexOf(`<${name}>`);
  const end = xml.indexOf(`</${name}>`, start);
  return start < 0 || end < 0 ? '' : unescapeXml(xml.slice(start + name.length + 2, end));
}

function unescapeXml(text: string): string {
  return text.replaceAll(
    /&(?:#x([0-9a-fA-F]{1,6})|#(\d{1,7})|(\w{2,4}));/g,
    (whole: string, hex?: string, decimal?: string, name?: string) => {
      if (name !== undefined) return ENTITIES[name] ?? whole;
      const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
      return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    },
  );
}
