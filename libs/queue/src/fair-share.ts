/**
 * Fair order between tenants (start-time fair queueing): the n-th waiting job of a tenant gets the place "n rounds from now". A flood
 * of one tenant therefore delays the next job of another tenant by one job, not by the whole flood. Places are BullMQ priorities;
 * jobs with equal ones are taken in the order in which they were added.
 *
 * "Now" is the lowest waiting place, read from BullMQ's own sorted set, so workers need no bookkeeping. If no job is waiting, it is the
 * greatest place assigned. After a second without jobs places start again at 1, so they stay far below BullMQ's greatest priority
 * (2,097,152). Above it, after two million jobs without an idle second, the order is first come, first served.
 *
 * A full queue still accepts jobs of shares that have few waiting, so a flood does not lock other tenants out. The large jobs of a share,
 * of more than 64 KiB, are also counted by their bytes until they have ended: a queue of 10,000 jobs would take 80 GB of large ones.
 *
 * `lua/take-place.lua` runs in front of BullMQ's script that adds the job, in the same Lua chunk: two processes that add at the same
 * time must not get the same place, a refused job must not take one, and the job costs a single request. All keys share the hash tag
 * of a shard, and each shard has its own order: the jobs of a tenant are spread over all of them, so a flood delays the next job of
 * another tenant by about one job per shard.
 */
import { readFileSync } from 'node:fs';
import {
  QueueKeys,
  RedisConnection,
  RedisQueueBackend,
  type BackendFactory,
  type IRedisClient,
  type JobsOptions,
} from 'bullmq';
import { unmarked } from '@toolfleet/contracts/json-text';
import { defineAround } from './redis-scripts.js';

const TAKE_PLACE = readFileSync(new URL('../lua/take-place.lua', import.meta.url), 'utf8');
const COMMAND = 'addAtPlace';
/** Number of keys of BullMQ's script; ours follow them. */
const BULLMQ_KEYS = 9;

/** Inputs of the place of a job; the script reads it from the job option `place`. */
interface PlaceRequest {
  share: string;
  /** Jobs this process is adding, including this one. */
  adding: number;
  /** Jobs that may wait; 10 % more for shares with fewer than ten waiting jobs. */
  most: number;
  /** Bytes of all large jobs of the share; a single one may be larger. */
  most_bytes: number;
}

/** Job options for adding with a place. Any priority makes BullMQ use its script for prioritized jobs. */
export const placedBy = (request: PlaceRequest): JobsOptions => ({ priority: 1, place: request }) as JobsOptions;

/** The queue is full for this share, or the share has too many bytes in it; the job was not added. */
export class NoPlace extends Error {
  constructor(readonly of: 'jobs' | 'bytes') {
    super(`The queue is full of ${of}`);
  }
}

/** The id of the job is reserved for a job in another shard; the job was not added. */
export class MovedJob extends Error {
  constructor(readonly shard: number) {
    super(`The job is in shard ${shard}`);
  }
}

class FairQueueBackend extends RedisQueueBackend {
  /** BullMQ has written the data; the queue marked its large integers. */
  override addJob(...[job, ...rest]: Parameters<RedisQueueBackend['addJob']>): Promise<string> {
    return super.addJob({ ...job, data: unmarked(job.data) }, ...rest);
  }

  protected override async addPrioritizedJob(
    ...[client, job, encodedOpts, args, keys]: Parameters<RedisQueueBackend['addPrioritizedJob']>
  ): Promise<string | number> {
    if (!('place' in job.opts)) return super.addPrioritizedJob(client, job, encodedOpts, args, keys);
    const values = this.addPrioritizedJobArgs(job, encodedOpts, args, keys);
    const { share } = (job.opts as unknown as { place: PlaceRequest }).place;
    const ourKeys = [this.queue.toKey('places'), this.queue.toKey('wait'), this.queue.toKey(`large:${share}`)];
    const redis = client as IRedisClient;
    defineAround(redis, COMMAND, {
      command: 'addPrioritizedJob',
      keys: BULLMQ_KEYS + ourKeys.length,
      around: (lua) => `${TAKE_PLACE}\n${lua}`,
    });
    const added = await redis.runCommand(COMMAND, [
      ...values.slice(0, BULLMQ_KEYS),
      ...ourKeys,
      ...values.slice(BULLMQ_KEYS),
    ]);
    if (added === 0) throw new NoPlace('jobs');
    if (added === -1) throw new NoPlace('bytes');
    if (Array.isArray(added)) throw new MovedJob(Number(added[0]));
    return added as string;
  }
}

/** BullMQ's Redis backend with fair places, on the connection of the queue. @param prefix of the keys of a shard */
export function fairQueueBackend(prefix: string): BackendFactory<RedisQueueBackend> {
  const queueKeys = new QueueKeys(prefix);
  return (name, opts) => {
    const shared = { shared: true, blocking: false, skipWaitingForReady: true };
    const connection = new RedisConnection(opts.connection, shared);
    return new FairQueueBackend(connection, name, queueKeys.getKeys(name), (type) => queueKeys.toKey(name, type), opts);
  };
}
