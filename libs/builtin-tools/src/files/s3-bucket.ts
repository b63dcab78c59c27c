import { randomUUID } from 'node:crypto';
import { AwsClient } from 'aws4fetch';
import { ToolError } from '@toolfleet/contracts';
import { readListing, type ListedObject } from './s3-listing.js';

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
  /** A guarded `fetch` (libs/egress). */
  fetch: typeof fetch;
}

/** The requests of one S3-compatible bucket, signed; keys are those below the prefix. */
export class S3Bucket {
  private readonly signer: AwsClient;
  private conditions: Promise<void> | undefined;

  constructor(private readonly options: S3Options) {
    const { accessKeyId, secretAccessKey, region } = options;
    this.signer = new AwsClient({ accessKeyId, secretAccessKey, region, service: 's3', retries: 0 });
  }

  /**
   * A bucket that ignores conditions would lose edits in silence: it is tried once, before the first write, since every write
   * makes its hold on the quota under a condition.
   * @throws ToolError EXECUTION_FAILED when it does
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
    throw new ToolError('EXECUTION_FAILED', { message });
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
        ...(token === undefined ? {} : { 'continuation-token': token }),
      });
      const response = await this.send('GET', undefined, undefined, {}, `?${query}`);
      if (!response.ok) throw unavailable(response.status);
      const { objects, next } = readListing(await response.text());
      for (const object of objects) found.push({ ...object, key: object.key.slice(prefix.length) });
      token = next;
      if (!all || token === undefined || found.length >= limit) return found.slice(0, limit);
    }
  }

  /** One request; without a key it goes to the bucket itself. */
  async send(
    method: string,
    key?: string,
    body?: Uint8Array,
    headers: Record<string, string> = {},
    query = '',
  ): Promise<Response> {
    const { endpoint, bucket, prefix = '' } = this.options;
    const path = key === undefined ? '' : `/${(prefix + key).split('/').map(encodeURIComponent).join('/')}`;
    const signed = await this.signer.sign(`${endpoint.replace(/\/$/, '')}/${bucket}${path}${query}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: Buffer.from(body) }),
    });
    return this.options.fetch(signed.url, {
      method,
      headers: signed.headers,
      ...(body === undefined ? {} : { body: Buffer.from(body) }),
    });
  }
}

/** A status that is no answer. */
export function unavailable(status: number): ToolError {
  return new ToolError('NETWORK_ERROR', { message: `The file storage answered ${status}` });
}
