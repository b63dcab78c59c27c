import { createHash, randomUUID } from 'node:crypto';
import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import { LargeResults, type OmittedResult } from '@toolfleet/journal';
import { Rounds, TimedOut, withTimeout, type Clock } from '@toolfleet/resilience';
import { HOUR, type ObjectStore } from './object-store.js';

/** Maximum wait for the store: a caller waits for it before its answer leaves. */
const TIMEOUT_MS = 5_000;
/** A store that failed is left alone for this long, so that one call pays for finding out, not every call. */
const PAUSE_MS = 2_000;
const SWEEP_EVERY_MS = 600_000;
const HOUR_MS = 3_600_000;
/** Form of the last segment of a key. */
const NAME = /^[0-9a-f-]{36}\.json$/;
/** How far the clocks of gateways may differ without one of them deleting what another still delivers. */
const CLOCK_SKEW_MS = 300_000;

interface StoredResultsOptions {
  store: ObjectStore;
  /** Results of more bytes than this go to the store. */
  thresholdBytes: number;
  clock: Clock;
  /** Maximum life of a result; no object is in a later hour. */
  longestTtlMs: Milliseconds;
  /** Reports an operation that failed; the result went to Redis, or the reader got SERVICE_UNAVAILABLE. */
  onFailure: (operation: 'put' | 'get' | 'delete' | 'sweep', error: unknown) => void;
}

/**
 * Large results as objects of an `ObjectStore`. A reference is `<key> <bytes> <SHA-256>`. Names are random, so writers never
 * meet, and a key has a segment of its tenant, compared with the reader's. A component with `start` and `stop`:
 * it deletes expired objects every ten minutes, on every gateway; deleting twice does no harm.
 */
export class StoredResults extends LargeResults {
  readonly name = 'result store';
  #pausedUntil = 0;
  readonly #sweeps: Rounds;

  constructor(private readonly options: StoredResultsOptions) {
    super();
    this.#sweeps = new Rounds({ clock: options.clock, everyMs: SWEEP_EVERY_MS, work: () => this.sweep() });
  }

  override async put(tenantId: string, text: string, ttlMs: Milliseconds): Promise<string | undefined> {
    const { store, thresholdBytes, clock } = this.options;
    // A UTF-8 text has at most three bytes a character: most results need no count.
    if (text.length * 3 <= thresholdBytes) return undefined;
    const bytes = Buffer.from(text);
    if (bytes.length <= thresholdBytes || this.#isPaused) return undefined;
    const key = `${hourOf(clock.now() + ttlMs)}/${tenantSegment(tenantId)}/${randomUUID()}.json`;
    try {
      await this.#attempt('put', store.put(key, bytes));
    } catch {
      return undefined;
    }
    return `${key} ${bytes.length} ${sha256(bytes)}`;
  }

  override async get(tenantId: string, reference: string): Promise<{ text: string } | { omitted: OmittedResult }> {
    const { key, bytes, digest } = parseReference(reference);
    const [hour = '', tenant, name = '', ...rest] = key.split('/');
    const isOwn = HOUR.test(hour) && tenant === tenantSegment(tenantId) && NAME.test(name) && rest.length === 0;
    if (!isOwn) return { omitted: { bytes, reason: 'missing' } };
    const unavailable = (cause?: unknown) =>
      new ToolError('SERVICE_UNAVAILABLE', { message: 'The result store is unavailable; retry later', cause });
    if (this.#isPaused) throw unavailable();
    const found = await this.#attempt('get', this.options.store.get(key)).catch((error: unknown) => {
      throw unavailable(error);
    });
    if (!found) return { omitted: { bytes, reason: 'missing' } };
    if (sha256(found) !== digest) return { omitted: { bytes, reason: 'damaged' } };
    return { text: Buffer.from(found.buffer, found.byteOffset, found.byteLength).toString() };
  }

  override async delete(reference: string): Promise<void> {
    if (this.#isPaused) return;
    await this.#attempt('delete', this.options.store.delete(parseReference(reference).key)).catch(() => undefined);
  }

  /** Deletes all results of a tenant, or counts them. Rejects when the store is unavailable. */
  async eraseTenant(tenantId: string, dryRun: boolean): Promise<number> {
    const { store, clock, longestTtlMs } = this.options;
    let erased = 0;
    const last = clock.now() + longestTtlMs + HOUR_MS;
    for (let at = clock.now() - HOUR_MS; at <= last; at += HOUR_MS)
      erased += await store.deleteTenant(hourOf(at), tenantSegment(tenantId), dryRun);
    return erased;
  }

  async start(): Promise<void> {
    this.#sweeps.start();
  }

  async stop(): Promise<void> {
    void this.#sweeps.stop();
    await this.options.store.close();
  }

  /** Deletes objects after their hour; failures are reported and the next sweep repeats them. */
  async sweep(): Promise<void> {
    const { store, clock, onFailure } = this.options;
    try {
      await store.deleteBefore(hourOf(clock.now() - CLOCK_SKEW_MS));
    } catch (error) {
      onFailure('sweep', error);
    }
  }

  get #isPaused(): boolean {
    return this.options.clock.monotonic() < this.#pausedUntil;
  }

  async #attempt<T>(operation: 'put' | 'get' | 'delete', work: Promise<T>): Promise<T> {
    const { clock, onFailure } = this.options;
    try {
      return await withTimeout(clock, TIMEOUT_MS, work);
    } catch (cause) {
      const error =
        cause instanceof TimedOut ? new Error(`The result store did not answer within ${TIMEOUT_MS} ms`) : cause;
      this.#pausedUntil = clock.monotonic() + PAUSE_MS;
      onFailure(operation, error);
      throw error;
    }
  }
}

/** Epoch ms as `2026-11-22T05` (UTC). */
function hourOf(at: number): string {
  return new Date(Math.floor(at / HOUR_MS) * HOUR_MS).toISOString().slice(0, 13);
}

/** Tenant ids come from tokens: only plain ones are used as a name. */
function tenantSegment(tenantId: string): string {
  return /^[\w-]{1,100}$/.test(tenantId) ? tenantId : `~${sha256(tenantId).slice(0, 32)}`;
}

function parseReference(reference: string): { key: string; bytes: number; digest: string } {
  const [key = '', bytes = '0', digest = ''] = reference.split(' ');
  return { key, bytes: Number(bytes), digest };
}

const sha256 = (data: Uint8Array | string): string => createHash('sha256').update(data).digest('hex');
