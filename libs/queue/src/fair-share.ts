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
 * A full queue still takes jobs of shares that have few waiting, so a flood locks nobody out. The jobs that wait are counted
 * here, too: a job costs one question less.
 *
 * One script, because two processes that add at once must not get the same place. All keys share the queue's hash tag.
 */
import { QUEUE_PREFIX } from '@toolfleet/contracts';
import type { Redis } from 'ioredis';

/**
 * KEYS: sorted set of waiting jobs, places by share, jobs that wait without a place, delayed jobs. ARGV: share, greatest place,
 * ttl in seconds, idle ms, jobs being added, most jobs that may wait, most of them in any case, and how many of its own a
 * share may have waiting beyond the first bound. Answers 0 when the queue is full for this share; no place is taken then.
 * Fields of the places: `s:<share>` last place of a share, `max` greatest place, `at` time of the last one.
 */
const TAKE_PLACE_4 = `
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
local waiting = redis.call('ZCARD', KEYS[1]) + redis.call('LLEN', KEYS[3]) + redis.call('ZCARD', KEYS[4]) + tonumber(ARGV[5])
if waiting > tonumber(ARGV[7]) or (waiting > tonumber(ARGV[6]) and last - now + 1 >= tonumber(ARGV[8])) then
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

/** What a full queue still takes, of its length, and of which shares: those with fewer jobs waiting. */
const RESERVE = 0.1;
const FEW = 10;

/**
 * The place (BullMQ priority) of the next job of a share, and takes it; undefined when the queue is full for this share:
 * `maxLength` jobs wait, and a tenth more where the share has fewer than ten of its own waiting. Those are counted by their
 * places: one that has just been taken may count, too.
 * @param adding jobs this process is adding, this one included
 */
export async function takePlace(
  redis: Redis,
  queue: string,
  share: string,
  { maxLength, adding }: { maxLength: number; adding: number },
): Promise<number | undefined> {
  const keys = ['prioritized', 'places', 'wait', 'delayed'].map((name) => `${QUEUE_PREFIX}:${queue}:${name}`);
  const bounds = [GREATEST_PLACE, TTL_SECONDS, IDLE_MS, adding, maxLength, maxLength * (1 + RESERVE), FEW];
  return Number(await redis.eval(TAKE_PLACE_4, keys.length, ...keys, share, ...bounds)) || undefined;
}
