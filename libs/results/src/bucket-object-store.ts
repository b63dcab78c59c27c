import type { EgressClient } from '@toolfleet/egress';
import { S3Bucket, unavailable, type S3Options } from '@toolfleet/egress/s3';
import { HOUR, ObjectStore } from './object-store.js';

/** Objects listed and deleted in one step of a sweep. */
const SWEEP_PAGE = 1_000;

/** Objects in an S3-compatible bucket. */
export class BucketObjectStore extends ObjectStore {
  private readonly bucket: S3Bucket;

  constructor(
    options: S3Options,
    private readonly egress: Pick<EgressClient, 'close'>,
  ) {
    super();
    this.bucket = new S3Bucket(options);
  }

  override async put(key: string, bytes: Uint8Array): Promise<void> {
    const response = await this.bucket.send('PUT', key, bytes);
    await response.body?.cancel();
    if (!response.ok) throw unavailable(response.status);
  }

  override async get(key: string): Promise<Uint8Array | undefined> {
    const response = await this.bucket.send('GET', key);
    if (response.ok) return new Uint8Array(await response.arrayBuffer());
    await response.body?.cancel();
    if (response.status === 404) return undefined;
    throw unavailable(response.status);
  }

  override delete(key: string): Promise<void> {
    return this.bucket.delete(key);
  }

  override async deleteTenant(hour: string, tenant: string, dryRun: boolean): Promise<number> {
    const objects = await this.bucket.keys(`${hour}/${tenant}/`, true, Number.POSITIVE_INFINITY);
    if (!dryRun) for (const { key } of objects) await this.bucket.delete(key);
    return objects.length;
  }

  /** Listings are in the order of keys, so that expired objects come first. */
  override async deleteBefore(hour: string): Promise<void> {
    for (;;) {
      const page = await this.bucket.keys('', true, SWEEP_PAGE);
      const expired = page.filter(({ key }) => HOUR.test(key.split('/', 1)[0] ?? '') && key < hour);
      for (const { key } of expired) await this.bucket.delete(key);
      if (expired.length < SWEEP_PAGE) return;
    }
  }

  override close(): Promise<void> {
    return this.egress.close();
  }
}
