import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { atTurnEnd, type Clock } from '@toolfleet/resilience';
import { defineScript, leaseSize, StoreHealth, TokenLeases, type Script } from '@toolfleet/queue/redis';
import { KeyLimits, type KeyAllowance, type Tier } from './key-limits.js';

const TAKE_KEY_REQUESTS = readFileSync(new URL('../lua/take-key-requests.lua', import.meta.url), 'utf8');

type TakeReply = [granted: number, minute: number, hour: number, day: number, now: number];

interface Turn {
  tier: Tier;
  waiting: ((reply: TakeReply | null, index: number) => void)[];
}

const WINDOWS = [
  ['minute', 60],
  ['hour', 3_600],
  ['day', 86_400],
] as const;

/** Longest wait for Redis. Every request waits here, before its deadline begins. */
const PATIENCE_MS = 100;

/**
 * Counts requests in Redis. One script call counts all requests of a key that arrive in the same tick; large tiers lease some
 * requests in advance. While Redis is unavailable or hangs, requests are admitted uncounted; the limits of tools still hold.
 */
export class RedisKeyLimits extends KeyLimits {
  private readonly script: Script<TakeReply>;
  private readonly health: StoreHealth;
  private readonly leases = new TokenLeases<TakeReply>();
  private turns = new Map<string, Turn>();

  constructor(
    private readonly redis: Redis,
    private readonly clock: Clock,
  ) {
    super();
    this.health = new StoreHealth(clock, PATIENCE_MS);
    this.script = defineScript(redis, 'takeKeyRequests', 1, TAKE_KEY_REQUESTS);
  }

  override take(id: string, tier: Tier, calls = 1): KeyAllowance | null | Promise<KeyAllowance | null> {
    if (this.redis.status !== 'ready' || !this.health.isUp) return null;
    if (calls > 1) return this.takeTogether(id, tier, calls);
    const leased = this.leases.use(id, this.clock.monotonic());
    if (leased) return toAllowance(leased.reply, leased.reply[0] - 1 - leased.left);
    return new Promise((resolve) => {
      let turn = this.turns.get(id);
      if (!turn) {
        turn = { tier, waiting: [] };
        this.turns.set(id, turn);
        if (this.turns.size === 1) atTurnEnd(() => this.flush());
      }
      turn.waiting.push((reply, index) => resolve(reply && toAllowance(reply, index)));
    });
  }

  private async takeTogether(id: string, tier: Tier, calls: number): Promise<KeyAllowance | null> {
    const reply = await this.health.run(() => this.ask(id, tier, calls, calls));
    return reply ? toAllowance(reply, calls - 1, calls) : null;
  }

  private ask(id: string, { minute, hour, day }: Tier, asked: number, least: number): Promise<TakeReply> {
    return this.script(`kl:${id}`, asked, minute, hour, day, least);
  }

  private flush(): void {
    const turns = this.turns;
    this.turns = new Map();
    for (const [id, { tier, waiting }] of turns) {
      const asked = Math.max(waiting.length, leaseSize(tier.minute));
      void this.health
        .run(() => this.ask(id, tier, asked, 1))
        .then((reply) => {
          if (reply) this.leases.keep(id, reply[0] - waiting.length, reply, this.clock.monotonic());
          waiting.forEach((settle, index) => settle(reply ?? null, index));
        });
    }
  }
}

/**
 * @param index position of the request within the same script call
 * @param calls size of a batch: of the windows without room for it, the longest is named
 */
function toAllowance([granted, minute, hour, day, now]: TakeReply, index: number, calls = 1): KeyAllowance {
  const nextStart = (size: number) => now - (now % size) + size;
  if (index < granted) {
    // Each request of the tick sees the rest after itself.
    const after = granted - 1 - index;
    return {
      allowed: true,
      remainingMinute: minute + after,
      remainingHour: hour + after,
      resetAtSeconds: nextStart(60),
    };
  }
  const left = [minute, hour, day];
  const full = left.findLastIndex((count) => count < calls);
  const [window, size] = WINDOWS[Math.max(0, full)]!;
  return {
    allowed: false,
    remainingMinute: minute,
    remainingHour: hour,
    resetAtSeconds: nextStart(size),
    window,
    retryAfterMs: (nextStart(size) - now) * 1_000,
  };
}
