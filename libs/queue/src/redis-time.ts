import type { EpochMs } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Redis } from 'ioredis';

/** Clocks drift some tens of ppm: 30 s apart, two readings differ by about a millisecond. */
const REFRESH_MS = 30_000;
/** A reading that took longer says little about the offset; a better one replaces it. */
const GOOD_ROUND_TRIP_MS = 20;

/**
 * The clock of Redis, which all processes share: deadlines in queues are instants on it. Read with
 * `TIME` at start and every 30 s; in between it runs on the local monotonic clock, so a jump of the wall clock does no harm.
 */
export class RedisTime {
  #offset: number | undefined;
  #cancel: CancelTimer | undefined;

  constructor(
    private readonly redis: Redis,
    private readonly clock: Clock,
  ) {}

  /** Reads the time once and keeps it fresh until `stop`. */
  async start(): Promise<void> {
    await this.refresh();
    this.#schedule();
  }

  stop(): void {
    this.#cancel?.();
  }

  /** True once the time of Redis is known. */
  get known(): boolean {
    return this.#offset !== undefined;
  }

  /** Now on Redis's clock, epoch ms. Before the first reading: the local wall clock. */
  now(): EpochMs {
    return this.#offset === undefined ? this.clock.now() : Math.round(this.clock.monotonic() + this.#offset);
  }

  /** A local instant (`deadlineAt` of this process) as an instant on Redis's clock. */
  fromLocal(localAt: EpochMs): EpochMs {
    return this.now() + (localAt - this.clock.now());
  }

  /** Milliseconds until an instant on Redis's clock; negative when it has passed. */
  msUntil(redisAt: EpochMs): number {
    return redisAt - this.now();
  }

  /** Reads the time now. Of two tries the quicker counts; a bad reading never replaces a good one. */
  async refresh(): Promise<void> {
    let best: { roundTrip: number; offset: number } | undefined;
    for (let attempt = 0; attempt < 2; attempt++) {
      const before = this.clock.monotonic();
      const [seconds, micros] = await this.redis.time();
      const after = this.clock.monotonic();
      const redisNow = Number(seconds) * 1_000 + Number(micros) / 1_000;
      const reading = { roundTrip: after - before, offset: redisNow - (before + after) / 2 };
      if (!best || reading.roundTrip < best.roundTrip) best = reading;
    }
    if (best && (this.#offset === undefined || best.roundTrip <= GOOD_ROUND_TRIP_MS)) this.#offset = best.offset;
  }

  #schedule(): void {
    this.#cancel = this.clock.after(REFRESH_MS, () => {
      // Without an answer the old offset stays good for a long time.
      this.refresh()
        .catch(() => undefined)
        .finally(() => this.#schedule());
    });
  }
}
