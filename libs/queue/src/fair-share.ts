/**
 * Fair order between tenants (start-time fair queueing): the n-th waiting job of a tenant gets the place "n rounds from
 * now", so a flood of one tenant delays the next job of another by one job, not by the flood. Places are BullMQ
 * priorities; equal ones are taken in the order of adding.
 *
 * "Now" is the least place that still waits, read from BullMQ's own sorted set, so that workers have nothing to do for
 * it; with nothing waiting it is the greatest place given. After a second without jobs counting starts again at 1, so
 * places stay far below BullMQ's greatest priority (2,097,152). Beyond that, after two million jobs without an idle
 * second, the order is first come, first served.
 *
 * A full queue still takes jobs of shares that have few waiting (`mostWaiting`), so a flood locks nobody out.
 *
 * One script, because two processes that add at once must not get the same place. All keys share the queue's hash tag.
 */
import { QUEUE_PREFIX } from '@toolfleet/contracts';
import type { Redis } from 'ioredis';

/**
 * KEYS: sorted set of waiting jobs, places by share. ARGV: share, greatest place, ttl in seconds, idle ms, most jobs of
 * the share that may wait (-1: any number). Answers 0 when as many wait already; no place is taken then.
 * Fields of the places: `s:<share>` last place of a share, `max` greatest place, `at` time of the last one.
 */
const TAKE_PLACE_2 = `
local time = redis.call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000)
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local now = 1
if #first > 0 then
  now = math.floor(tonumber(first[2]) / 0x100000000)
elseif at - tonumber(redis.call('HGET', KEYS[2], 'at') or '0') > tonumber(ARGV[4]) then
  redis.call('DEL', KEYS[2])
else
  now = tonumber(redis.call('HGET', KEYS[2], 'max') or '1')
end
local field = 's:' .. ARGV[1]
local last = tonumber(redis.call('HGET', KEYS[2], field) or '0')
if tonumber(ARGV[5]) >= 0 and last - now + 1 >= tonumber(ARGV[5]) then
  return 0
end
local place = math.min(math.max(now, last + 1, 1), tonumber(ARGV[2]))
local greatest = math.max(place, tonumber(redis.call('HGET', KEYS[2], 'max') or '0'))
redis.call('HSET', KEYS[2], field, place, 'max', greatest, 'at', at)
redis.call('EXPIRE', KEYS[2], ARGV[3])
return place
`;
const GREATEST_PLACE = 2_097_152;
/** Longer than any job waits. */
const TTL_SECONDS = 86_400;
const IDLE_MS = 1_000;

/**
 * The place (BullMQ priority) of the next job of a share, and takes it; undefined when `mostWaiting` jobs of this share
 * wait already. A share's waiting jobs are counted by their places: one that has just been taken may count, too.
 */
export async function takePlace(
  redis: Redis,
  queue: string,
  share: string,
  mostWaiting = -1,
): Promise<number | undefined> {
  const prefix = `${QUEUE_PREFIX}:${queue}`;
  const [waiting, places] = [`${prefix}:prioritized`, `${prefix}:places`];
  const bounds = [GREATEST_PLACE, TTL_SECONDS, IDLE_MS, mostWaiting];
  return Number(await redis.eval(TAKE_PLACE_2, 2, waiting, places, share, ...bounds)) || undefined;
}
