/**
 * The shards of a queue. All keys of a BullMQ queue share a hash tag, so one shard of a Redis Cluster holds them. A queue of n shards is n
 * BullMQ queues of the same name under the tags `{fleet}`, `{fleet-01}`, … A job goes to the shard of the hash of its id: each tenant is in
 * all shards, so that each is ordered fairly on its own and one tenant is not bound to one shard. Channels, slots of workers and the set of
 * vouched jobs stay under `{fleet}`.
 *
 * Processes may use different numbers of shards while `QUEUE_SHARDS` changes. `{fleet}:<queue>:shards` keeps the numbers in use, until two
 * days after their last use, in the order in which they came into use. Workers serve the shards of all of them. An id belongs to one job
 * although numbers give it different shards: the shard that the oldest number gives it decides. Before a process adds a job elsewhere, it
 * reserves the id there, in the place of the job's record (`lua/reserve-id.lua`). A process with the oldest number need not know of the
 * others: it adds the job there, unless it meets the reservation, and then in the shard that is named by it. Scripts do both, so the
 * first one decides and all others follow. All processes agree on the oldest number, because a process notes its own and reads the others
 * in one script, before it adds anything; numbers are forgotten only when one is left.
 */
import { readFileSync } from 'node:fs';
import type { Milliseconds } from '@toolfleet/contracts';
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import type { Redis } from 'ioredis';
import { defineScript, type Script } from './redis-scripts.js';
import type { RedisTime } from './redis-time.js';

const USE_SHARDS = readFileSync(new URL('../lua/use-shards.lua', import.meta.url), 'utf8');

/** Maximum number of shards of a queue; their tags have two digits, so that rules of users of Redis can name them. */
export const MAX_SHARDS = 64;
/** How long a number counts after its last use; longer than a job waits or its record stays by default. */
const IN_USE_MS = 172_800_000;
/** How often a process notes its number. */
const NOTE_MS = 10_000;

const numbersKey = (queue: string): string => `${QUEUE_PREFIX}:${queue}:shards`;

/** BullMQ prefix of the keys of a shard. */
export function shardPrefix(shard: number): string {
  return shard === 0 ? QUEUE_PREFIX : `${QUEUE_PREFIX.slice(0, -1)}-${String(shard).padStart(2, '0')}}`;
}

/** The shard of a job among `shards`: FNV-1a of its id. */
export function shardOf(jobId: string, shards: number): number {
  if (shards === 1) return 0;
  let hash = 0x811c9dc5;
  for (let index = 0; index < jobId.length; index += 1)
    hash = Math.imul(hash ^ jobId.charCodeAt(index), 0x01000193) >>> 0;
  // The low bits alone would depend on the low bits of the characters only.
  return ((hash ^ (hash >>> 16)) >>> 0) % shards;
}

/** Key of a job record in any shard of a queue, with the id as its only group. */
export function jobKeyPattern(queue: string): RegExp {
  const escaped = queue.replace(/[^\w-]/g, (character) => `\\${character}`);
  return new RegExp(`^\\{${QUEUE_PREFIX.slice(1, -1)}(?:-\\d\\d)?\\}:${escaped}:([^:]+)$`);
}

const numbersInUse = async (redis: Redis, queue: string): Promise<number[]> =>
  (await redis.hkeys(numbersKey(queue))).map(Number);

/** Number of shards that workers of a queue serve: the largest number in use. */
export async function servedShards(redis: Redis, queue: string): Promise<number> {
  return Math.max(1, ...(await numbersInUse(redis, queue)));
}

/** The numbers of shards in use, as a process sees them that adds jobs or looks for them. */
export class ShardNumbers {
  readonly #use: Script<number[]>;
  #numbers: Promise<readonly number[]> | undefined;
  #notedAt: Milliseconds = 0;

  constructor(
    private readonly options: {
      redis: Redis;
      queue: string;
      time: RedisTime;
      own: number;
      /** Called with the numbers in use each time this process has noted its own. */
      onNoted: (numbers: readonly number[]) => void;
    },
  ) {
    this.#use = defineScript(options.redis, 'useShards', 2, USE_SHARDS);
  }

  /** Numbers in use with this process's, in any order. Rejects while Redis is unavailable and they were never read. */
  list(): Promise<readonly number[]> {
    const { redis, queue, own } = this.options;
    // While Redis refuses writes, jobs can still be read and counted.
    return this.agree().catch(async () => [...(await numbersInUse(redis, queue)), own]);
  }

  /**
   * Numbers in use, the oldest first, of which this process has noted its own: all that add jobs agree on the oldest. Rejects while Redis
   * is unavailable or refuses writes and they were never read.
   */
  agree(): Promise<readonly number[]> {
    const now = this.options.time.now();
    if (this.#numbers && now - this.#notedAt < NOTE_MS) return this.#numbers;
    this.#notedAt = now;
    const { queue, own, onNoted } = this.options;
    const noted = this.#use(numbersKey(queue), `${QUEUE_PREFIX}:${queue}:id`, own, IN_USE_MS);
    noted.then(
      (numbers) => {
        this.#numbers = noted;
        onNoted(numbers);
      },
      () => undefined,
    );
    // Only newer numbers can have come into use since.
    if (this.#numbers) return this.#numbers;
    this.#numbers = noted;
    noted.catch(() => (this.#numbers = undefined));
    return noted;
  }
}
