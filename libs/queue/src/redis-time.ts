import type { EpochMs } from '@toolfleet/contracts';
import { Rounds, type Clock } from '@toolfleet/resilience';
import type { Metrics } from '@toolfleet/telemetry';
import type { Redis } from 'ioredis';

/** Clocks drift by some tens of ppm, about a millisecond in 30 s. */
const REFRESH_MS = 30_000;
/** A slower reading is too inaccurate to replace an earlier offset. */
const GOOD_ROUND_TRIP_MS = 20;

/**
 * The clock of Redis, shared by all processes; deadlines in queues are instants of it. It is read with `TIME` at the start and every
 * 30 s. In between it advances with the local monotonic clock, so jumps of the wall clock do not affect it.
 */
export class RedisTime {
  #offset: number | undefined;
  // Without a reply the old offset stays accurate for a long time.
  readonly #rounds: Rounds;

  constructor(
    private readonly redis: Redis,
    private readonly clock: Clock,
    metrics?: Metrics,
  ) {
    this.#rounds = new Rounds({ clock, everyMs: REFRESH_MS, work: () => this.refresh() });
    metrics?.onScrape(() => {
      if (this.known) metrics.storeClockOffset.set((this.clock.now() - this.now()) / 1_000);
    });
  }

  /** Reads the time and refreshes it until `stop`. */
  async start(): Promise<void> {
    await this.refresh();
    this.#rounds.start();
  }

  stop(): void {
    void this.#rounds.stop();
  }

  /** True after the first reading. */
  get known(): boolean {
    return this.#offset !== undefined;
  }

  /** Current time by the clock of Redis; by the local wall clock before the first reading. */
  now(): EpochMs {
    return this.#offset === undefined ? this.clock.now() : Math.round(this.clock.monotonic() + this.#offset);
  }

  /** Converts an instant of the local wall clock to the clock of Redis. */
  fromLocal(localAt: EpochMs): EpochMs {
    return this.now() + (localAt - this.clock.now());
  }

  /** Milliseconds until an instant of the clock of Redis; negative after it. */
  msUntil(redisAt: EpochMs): number {
    return redisAt - this.now();
  }

  /** Reads the time twice and uses the faster reading, unless it is too slow to replace an earlier one. */
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
}
