import type { Cluster, Redis } from 'ioredis';
import { MemoryRateLimiter, RateLimiter } from '@toolfleet/engine';
import {
  atTurnEnd,
  RecentMap,
  type Clock,
  type GrantedTokens,
  type Rate,
  type RateDecision,
} from '@toolfleet/resilience';
import { defineScript, leaseSize, StoreHealth, TokenLeases, type Script } from '@toolfleet/queue/redis';
import { readFileSync } from 'node:fs';

export const TAKE_TOKENS = readFileSync(new URL('../lua/take-tokens.lua', import.meta.url), 'utf8');

interface RateLimiterOptions {
  /** Number of live gateways, read at each local decision: while Redis is unavailable each grants its share. Default 1. */
  gateways?: () => number;
  /** Called for each decision that is made locally because Redis is unavailable. */
  onLocalDecision?: () => void;
  /** Longest wait for Redis, ms. Default 100. */
  timeoutMs?: number;
}

const TIMEOUT_MS = 100;
const PREFIX = 'rl:';
/** Empty buckets that are remembered. */
const MAX_EMPTY = 10_000;

type BucketReply = [granted: number, remaining: number, retryAfterMs: number, resetMs: number];

/** Requests for one bucket that arrived in the same event-loop tick. */
interface Batch {
  rate: Rate;
  pending: ((reply: GrantedTokens | undefined, index: number) => void)[];
}

/**
 * Token buckets shared by all gateways: GCRA in Lua on Redis TIME, never above `rate * t + burst`. Three things keep Redis out
 * of most decisions: requests for one bucket in one event-loop tick are one script run, large limits are leased some tokens in
 * advance, and an empty bucket is refused locally until its next token. While Redis is down, a local bucket with
 * rate / gateways decides.
 */
export class RedisRateLimiter extends RateLimiter {
  readonly #take: Script<BucketReply>;
  readonly #local: MemoryRateLimiter;
  readonly #health: StoreHealth;
  /** Monotonic ms of the next token, by bucket. */
  readonly #emptyUntil = new RecentMap<string, number>({ max: MAX_EMPTY });
  readonly #leases = new TokenLeases<BucketReply>();
  #batches = new Map<string, Batch>();

  constructor(
    private readonly redis: Redis | Cluster,
    private readonly clock: Clock,
    private readonly options: RateLimiterOptions = {},
  ) {
    super();
    this.#take = defineScript(redis, 'takeTokens', 1, TAKE_TOKENS);
    this.#local = new MemoryRateLimiter(clock);
    this.#health = new StoreHealth(clock, options.timeoutMs ?? TIMEOUT_MS);
  }

  override take(key: string, rate: Rate): RateDecision | Promise<RateDecision> {
    const bucket = toBucketKey(key, rate);
    const leased = this.#leases.use(bucket, this.clock.monotonic());
    if (leased) {
      const [, remaining, , resetMs] = leased.reply;
      return { allowed: true, remaining: remaining + leased.left, retryAfterMs: 0, resetMs };
    }
    const emptyForMs = (this.#emptyUntil.get(bucket) ?? 0) - this.clock.monotonic();
    if (emptyForMs > 0)
      return { allowed: false, remaining: 0, retryAfterMs: Math.ceil(emptyForMs), resetMs: rate.periodMs };
    if (!this.#isRedisUp) return this.#takeLocally(key, rate);
    return new Promise((resolve) => {
      this.#batchFor(bucket, rate).pending.push((reply, index) => {
        if (!reply) return resolve(this.#takeLocally(key, rate));
        const allowed = index < reply.granted;
        resolve({
          allowed,
          remaining: Math.max(0, reply.remaining),
          retryAfterMs: allowed ? 0 : reply.retryAfterMs,
          resetMs: reply.resetMs,
        });
      });
    });
  }

  override async peek(key: string, rate: Rate): Promise<number> {
    if (!this.#isRedisUp) return this.#local.peek(key, this.#localShare(rate));
    const reply = await this.#health.run(() => this.#take(toBucketKey(key, rate), rate.perPeriod, rate.periodMs, 0));
    return reply ? reply[1] : this.#local.peek(key, this.#localShare(rate));
  }

  get #isRedisUp(): boolean {
    return this.redis.status === 'ready' && this.#health.isUp;
  }

  #takeLocally(key: string, rate: Rate): RateDecision {
    this.options.onLocalDecision?.();
    return this.#local.take(key, this.#localShare(rate));
  }

  /** At least 1, so two gateways grant 2 of a limit of 1 while Redis is down. */
  #localShare(rate: Rate): Rate {
    return { ...rate, perPeriod: Math.max(1, Math.floor(rate.perPeriod / (this.options.gateways?.() ?? 1))) };
  }

  #batchFor(bucket: string, rate: Rate): Batch {
    let batch = this.#batches.get(bucket);
    if (!batch) {
      batch = { rate, pending: [] };
      this.#batches.set(bucket, batch);
      if (this.#batches.size === 1) atTurnEnd(() => this.#flush());
    }
    return batch;
  }

  #flush(): void {
    const batches = this.#batches;
    this.#batches = new Map();
    for (const [bucket, batch] of batches) void this.#takeBatch(bucket, batch);
  }

  async #takeBatch(bucket: string, { rate, pending }: Batch): Promise<void> {
    const requested = Math.max(pending.length, leaseSize((rate.perPeriod * 60_000) / rate.periodMs));
    const reply = await this.#health.run(() => this.#take(bucket, rate.perPeriod, rate.periodMs, requested));
    if (!reply) return pending.forEach((settle, index) => settle(undefined, index));
    const [granted, remaining, retryAfterMs, resetMs] = reply;
    this.#leases.keep(bucket, granted - pending.length, reply, this.clock.monotonic());
    if (retryAfterMs > 0) this.#emptyUntil.set(bucket, this.clock.monotonic() + retryAfterMs);
    pending.forEach((settle, index) => settle({ granted, remaining, retryAfterMs, resetMs }, index));
  }
}

/** A changed rate gets a new bucket, because the stored arrival time is in units of the old rate. */
function toBucketKey(key: string, rate: Rate): string {
  return `${PREFIX}${key}:${rate.perPeriod}`;
}
