/**
 * Jobs that their submitter still wants to start: a sorted set `{fleet}:<queue>:vouched` of job ids by the time of the last word of
 * their submitter, repeated while it waits. A submitter withdraws a job that must not start any more, such as one of a
 * revoked key. One that died or is suspended cannot, so a worker starts no job without a recent word.
 */
import type { Redis } from 'ioredis';
import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';

/** How long a word counts; submitters repeat it more than twice as often. A job that was added just now needs none. */
export const VOUCHED_MS: Milliseconds = 4_500;
/** The set is of no use after this time. */
const KEPT_MS = 60_000;

const vouchedKey = (queue: string): string => `${QUEUE_PREFIX}:${queue}:vouched`;

/** Says that these jobs may start. @param now by the clock of Redis */
export async function vouchFor(redis: Redis, queue: string, jobIds: readonly string[], now: EpochMs): Promise<void> {
  const key = vouchedKey(queue);
  await redis
    .multi()
    .zadd(key, ...jobIds.flatMap((jobId) => [now, jobId]))
    .zremrangebyscore(key, '-inf', now - KEPT_MS)
    .pexpire(key, KEPT_MS)
    .exec();
}

/** Whether a job may start. @param now by the clock of Redis */
export async function isVouched(redis: Redis, queue: string, jobId: string, now: EpochMs): Promise<boolean> {
  const vouchedAt = await redis.zscore(vouchedKey(queue), jobId);
  return vouchedAt !== null && now - Number(vouchedAt) <= VOUCHED_MS;
}
