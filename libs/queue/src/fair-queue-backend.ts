/**
 * BullMQ's Redis backend, in which a job takes its place of the fair order (fair-share.ts) in the script that adds it: one
 * question to Redis instead of two, and no place without its job.
 *
 * Ours runs in front of BullMQ's own script, in the same Lua chunk: it reads what it needs from the options of the job
 * (`place`), puts the place there as `priority`, and BullMQ's part goes on as if the caller had known it.
 */
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import {
  QueueKeys,
  RedisConnection,
  RedisQueueBackend,
  type BackendFactory,
  type IRedisClient,
  type JobsOptions,
} from 'bullmq';
import { TAKE_PLACE, type PlaceAsk } from './fair-share.js';

/** Options of a job that takes its place; any priority tells BullMQ which of its scripts to use. */
export const placedBy = (ask: PlaceAsk): JobsOptions => ({ priority: 1, place: ask }) as JobsOptions;

/** No place was taken and no job added: the queue is full for this share. */
export class NoPlace extends Error {}

const COMMAND = 'addAtPlace';
/** Keys of BullMQ's script; ours come after them. */
const THEIR_KEYS = 9;

/** The part of ioredis that keeps the scripts it was given. */
interface WithScripts {
  scriptsSet: Record<string, { lua: string } | undefined>;
}

class FairQueueBackend extends RedisQueueBackend {
  protected override async addPrioritizedJob(
    ...[client, job, encodedOpts, args, keys]: Parameters<RedisQueueBackend['addPrioritizedJob']>
  ): Promise<string | number> {
    if (!('place' in job.opts)) return super.addPrioritizedJob(client, job, encodedOpts, args, keys);
    const theirs = this.addPrioritizedJobArgs(job, encodedOpts, args, keys);
    const ours = [this.queue.toKey('places'), this.queue.toKey('wait')];
    const redis = client as IRedisClient;
    this.#define(redis);
    const added = await redis.runCommand(COMMAND, [
      ...theirs.slice(0, THEIR_KEYS),
      ...ours,
      ...theirs.slice(THEIR_KEYS),
    ]);
    if (added === 0) throw new NoPlace();
    return added as string;
  }

  /** Once per connection, when BullMQ has defined its own scripts. */
  #define(redis: IRedisClient): void {
    const { scriptsSet } = redis as unknown as WithScripts;
    if (scriptsSet[COMMAND]) return;
    const theirs = scriptsSet[`addPrioritizedJob:${this.version}`];
    if (!theirs) throw new Error('BullMQ has another script to add jobs with a priority');
    redis.defineCommand(COMMAND, { numberOfKeys: THEIR_KEYS + 2, lua: `${TAKE_PLACE}\n${theirs.lua}` });
  }
}

/** Makes the backend of a queue on a connection of its owner. */
export const fairQueueBackend: BackendFactory<RedisQueueBackend> = (name, opts) => {
  const connection = new RedisConnection(opts.connection, { shared: true, blocking: false, skipWaitingForReady: true });
  const queueKeys = new QueueKeys(QUEUE_PREFIX);
  return new FairQueueBackend(connection, name, queueKeys.getKeys(name), (type) => queueKeys.toKey(name, type), opts);
};
