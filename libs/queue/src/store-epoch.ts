/**
 * Detects a Redis that lost data. Every kind of keys has a key with the epoch of the store (`EPOCH_KEYS`): a random id, and an instant that
 * the budget service moves on. What Redis should hold is in the database of that service, which survives the loss of Redis, and is copied
 * to `{store}:epoch` for the others. A kind without its epoch was emptied; an instant that is older than one known to be kept means
 * that the writes since then are gone, as after a failover to an old replica.
 */
import { EPOCH_KEYS } from '@toolfleet/contracts/account';
import { toInstant, type EpochMs } from '@toolfleet/contracts';
import { Rounds, type Clock } from '@toolfleet/resilience';
import type { Redis } from 'ioredis';
import { publicAddress } from './redis-address.js';
import { unsafeSettings } from './redis-connection.js';

/** Hash with `epoch`, `kept_at` and `keys`, by which services know what Redis should hold. */
export const STORE_EPOCH_KEY = '{store}:epoch';
/** Time between two looks at Redis. */
const ROUND_MS = 15_000;
/** A Redis without an epoch for this long after the start is a fault: the budget service writes it as soon as it runs. */
const UNKNOWN_MS = 60_000;

/** What Redis should hold. */
export interface StoreEpoch {
  /** Id of the store. */
  epoch: string;
  /** Writes up to this instant are known to be kept. */
  keptAt: EpochMs;
  /** Keys that have the epoch. */
  keys: readonly string[];
}

/**
 * Compares Redis with its expected epochs.
 * @param keys those that the login may read
 * @returns the faults in words, and the instant of the oldest epoch
 */
async function lostData(
  redis: Redis,
  expected: StoreEpoch,
  keys: readonly string[],
): Promise<{ faults: string[]; oldestAt: EpochMs }> {
  const found = await Promise.all(
    keys
      .filter((key) => expected.keys.includes(key))
      .map(async (key) => {
        const { epoch, at } = await redis.hgetall(key);
        return { key, epoch, at: Number(at) };
      }),
  );
  const named = (those: typeof found) => those.map(({ key }) => key).join(', ');
  const missing = found.filter(({ epoch }) => epoch === undefined);
  const foreign = found.filter(({ epoch }) => epoch !== undefined && epoch !== expected.epoch);
  const old = found.filter(({ epoch, at }) => epoch === expected.epoch && at < expected.keptAt);
  const faults = [
    missing.length > 0 && `has lost the keys of ${named(missing)}`,
    foreign.length > 0 && `has the data of another store in ${named(foreign)}`,
    old.length > 0 &&
      `has lost the writes from ${toInstant(Math.min(...old.map(({ at }) => at)))} to ${toInstant(expected.keptAt)} of ${named(old)}`,
  ].filter((fault) => fault !== false);
  return { faults, oldestAt: Math.min(...found.map(({ at }) => at)) };
}

interface WatchHost {
  service: string;
  clock: Clock;
  faults: { set(subject: string, messages: readonly string[]): void };
}

/**
 * Lifecycle component that compares Redis with what it should hold, and looks at its settings, when the service starts and every 15 s.
 * What it finds are faults of the subjects `store data` and `store settings`. A Redis that is unavailable is none: readiness shows it.
 */
export class StoreWatch {
  readonly name = 'store watch';
  #expected: StoreEpoch | undefined;
  #knownBy = 0;
  readonly #rounds: Rounds;

  /** @param expectation how the budget service knows what Redis should hold; default: from Redis */
  constructor(
    private readonly redis: Redis,
    private readonly url: string,
    private readonly host: WatchHost,
    private readonly expectation?: { read(): Promise<StoreEpoch>; kept(oldestAt: EpochMs): Promise<void> },
  ) {
    // A round without an answer of Redis or the database says nothing.
    this.#rounds = new Rounds({ clock: host.clock, everyMs: ROUND_MS, work: () => this.#round() });
  }

  async start(): Promise<void> {
    this.#knownBy = this.host.clock.monotonic() + UNKNOWN_MS;
    this.#rounds.start();
    await this.#rounds.run();
  }

  async stop(): Promise<void> {
    void this.#rounds.stop();
  }

  async #round(): Promise<void> {
    const { faults } = this.host;
    const { refused, full } = await unsafeSettings(this.redis, this.url);
    faults.set('store settings', [...refused, ...full]);
    const lost = await this.#compare();
    faults.set(
      'store data',
      lost.map((fault) => `Redis at ${publicAddress(this.url)} ${fault}`),
    );
  }

  async #compare(): Promise<string[]> {
    const { service, clock } = this.host;
    // Of a Redis that was emptied, this process still knows the epoch.
    this.#expected = (await (this.expectation?.read() ?? this.#readCopy())) ?? this.#expected;
    if (!this.#expected)
      return clock.monotonic() < this.#knownBy
        ? []
        : ['has no epoch: it is empty, or not the Redis of the budget service'];
    const keys = Object.keys(EPOCH_KEYS).filter((key) => this.expectation ?? EPOCH_KEYS[key]?.includes(service));
    const { faults, oldestAt } = await lostData(this.redis, this.#expected, keys);
    if (faults.length === 0) await this.expectation?.kept(oldestAt);
    return faults.map((fault) => `${fault}; restore it, or accept the loss as the runbook store-lost says`);
  }

  async #readCopy(): Promise<StoreEpoch | undefined> {
    const { epoch, kept_at, keys } = await this.redis.hgetall(STORE_EPOCH_KEY);
    return epoch === undefined ? undefined : { epoch, keptAt: Number(kept_at), keys: keys?.split(' ') ?? [] };
  }
}
