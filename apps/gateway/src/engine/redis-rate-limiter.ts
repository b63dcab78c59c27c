import type { Cluster, Redis } from 'ioredis';
import { LRUCache } from 'lru-cache';
import { MemoryRateLimiter, RateLimiter } from '@toolfleet/engine';
import type { Clock, GrantedTokens, Rate, RateDecision } from '@toolfleet/resilience';
import { TAKE_TOKENS } from './scripts.js';
import { StoreHealth } from './store-health.js';
import { leaseSize, TokenLeases } from './token-lease.js';

/** How the limiter is set up. */
export interface RateLimiterOptions {
  /** Gateways that share the limits: while Redis is away each gives out its share. Default 1. */
  replicas?: number;
  /** Called for every decision that was made locally because Redis was away. */
  onLocalDecision?: () => void;
  /** Longest wait for Redis, ms. Default 100. */
  patienceMs?: number;
}

const PATIENCE_MS = 100;
const PREFIX = 'rl:';
/** Buckets known to be empty. */
const MAX_EMPTY = 10_000;

type TakeReply = [granted: number, remaining: number, retryAfterMs: number, resetMs: number];
type Script = (key: string, perPeriod: number, periodMs: number, asked: number) => Promise<TakeReply>;

interface Turn {
  rate: Rate;
  waiting: ((answer: GrantedTokens | undefined, index: number) => void)[];
}

/**
 * Token buckets shared by all gateways: GCRA in Lua on Redis TIME, never above `rate * t + burst`. Asks
 * for one bucket that arrive in one event-loop turn are one script run; large limits are taken some tokens in advance. A refusal says when the next token comes, so until
 * then the bucket is refused without asking: a flood costs Redis nothing. While Redis is away or hangs, a local bucket of
 * rate / replicas decides.
 */
export class RedisRateLimiter extends RateLimiter {
  readonly #take: Script;
  readonly #local: MemoryRateLimiter;
  readonly #trust: StoreHealth;
  readonly #empty = new LRUCache<string, number>({ max: MAX_EMPTY });
  readonly #leases = new TokenLeases<TakeReply>();
  #turns = new Map<string, Turn>();

  constructor(
    private readonly redis: Redis | Cluster,
    private readonly clock: Clock,
    private readonly options: RateLimiterOptions = {},
  ) {
    super();
    redis.defineCommand('takeTokens', { numberOfKeys: 1, lua: TAKE_TOKENS });
    const commands = redis as unknown as { takeTokens: Script };
    this.#take = (...values) => commands.takeTokens(...values);
    this.#local = new MemoryRateLimiter(clock);
    this.#trust = new StoreHealth(clock, options.patienceMs ?? PATIENCE_MS);
  }

  override take(key: string, rate: Rate): RateDecision | Promise<RateDecision> {
    const id = idOf(key, rate);
    const leased = this.#leases.use(id, this.clock.monotonic());
    if (leased) {
      const [, remaining, , resetMs] = leased.reply;
      return { allowed: true, remaining: remaining + leased.left, retryAfterMs: 0, resetMs };
    }
    const emptyForMs = (this.#empty.get(id) ?? 0) - this.clock.monotonic();
    if (emptyForMs > 0)
      return { allowed: false, remaining: 0, retryAfterMs: Math.ceil(emptyForMs), resetMs: rate.periodMs };
    if (!this.#reachable) return this.#takeLocally(key, rate);
    return new Promise((resolve) => {
      const turn = this.#turnOf(id, rate);
      turn.waiting.push((answer, index) => {
        if (!answer) return resolve(this.#takeLocally(key, rate));
        const allowed = index < answer.granted;
        resolve({
          allowed,
          remaining: Math.max(0, answer.remaining),
          retryAfterMs: allowed ? 0 : answer.retryAfterMs,
          resetMs: answer.resetMs,
        });
      });
    });
  }

  override async peek(key: string, rate: Rate): Promise<number> {
    if (!this.#reachable) return this.#local.peek(key, this.#share(rate));
    const reply = await this.#trust.ask(() => this.#take(idOf(key, rate), rate.perPeriod, rate.periodMs, 0));
    return reply ? reply[1] : this.#local.peek(key, this.#share(rate));
  }

  get #reachable(): boolean {
    return this.redis.status === 'ready' && this.#trust.given;
  }

  #takeLocally(key: string, rate: Rate): RateDecision {
    this.options.onLocalDecision?.();
    return this.#local.take(key, this.#share(rate));
  }

  /** At least 1: a limit of 1 with 2 gateways gives out 2 while Redis is away. */
  #share(rate: Rate): Rate {
    return { ...rate, perPeriod: Math.max(1, Math.floor(rate.perPeriod / (this.options.replicas ?? 1))) };
  }

  #turnOf(id: string, rate: Rate): Turn {
    let turn = this.#turns.get(id);
    if (!turn) {
      turn = { rate, waiting: [] };
      this.#turns.set(id, turn);
      if (this.#turns.size === 1) setImmediate(() => this.#flush());
    }
    return turn;
  }

  #flush(): void {
    const turns = this.#turns;
    this.#turns = new Map();
    for (const [id, turn] of turns) void this.#askFor(id, turn);
  }

  async #askFor(id: string, { rate, waiting }: Turn): Promise<void> {
    const asked = Math.max(waiting.length, leaseSize((rate.perPeriod * 60_000) / rate.periodMs));
    const reply = await this.#trust.ask(() => this.#take(id, rate.perPeriod, rate.periodMs, asked));
    if (reply) this.#leases.keep(id, reply[0] - waiting.length, reply, this.clock.monotonic());
    if (reply && reply[2] > 0) this.#empty.set(id, this.clock.monotonic() + reply[2]);
    const answer = reply && { granted: reply[0], remaining: reply[1], retryAfterMs: reply[2], resetMs: reply[3] };
    waiting.forEach((answered, index) => answered(answer, index));
  }
}

/** A changed rate starts a bucket of its own: the stored arrival time counts in tokens of the old one. */
function idOf(key: string, rate: Rate): string {
  return `${PREFIX}${key}:${rate.perPeriod}`;
}
