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
 * One script with the adding of the job (fair-queue-backend.ts), because two processes that add at once must not get the same
 * place. All keys share the queue's hash tag.
 */

/** What the place of a job depends on: of its option `place`, as the script reads it. */
export interface PlaceAsk {
  share: string;
  /** Jobs this process is adding, this one included. */
  adding: number;
  /** Jobs that may wait; a tenth more where the share has fewer than ten of its own waiting. */
  most: number;
}

const GREATEST_PLACE = 2_097_152;
/** Longer than any job waits. */
const TTL_SECONDS = 86_400;
const IDLE_MS = 1_000;

/** What a full queue still takes, of its length, and of which shares: those with fewer jobs waiting. */
const RESERVE = 0.1;
const FEW = 10;

/**
 * Begins a script of BullMQ that adds a job with a priority: puts the place there, or ends it with 0 when the queue is full
 * for this share; no place is taken then. Jobs of a share are counted by their places: one that has just been taken may
 * count, too. KEYS: BullMQ's (4: waiting jobs with a place, 5: delayed jobs), then 10: places by share, 11: jobs that wait
 * without a place. ARGV[3]: options of the job, packed. Fields of the places: `s:<share>` last place of a share, `max`
 * greatest place, `at` time of the last one.
 */
export const TAKE_PLACE = `
do
  local opts = cmsgpack.unpack(ARGV[3])
  local ask = opts['place']
  local time = redis.call('TIME')
  local at = time[1] * 1000 + math.floor(time[2] / 1000)
  local first = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
  local now = 1
  if #first > 0 then
    now = math.floor(tonumber(first[2]) / 0x100000000)
  elseif at - tonumber(redis.call('HGET', KEYS[10], 'at') or '0') > ${IDLE_MS} then
    redis.call('DEL', KEYS[10])
  else
    now = tonumber(redis.call('HGET', KEYS[10], 'max') or '1')
  end
  local field = 's:' .. ask['share']
  local last = tonumber(redis.call('HGET', KEYS[10], field) or '0')
  local waiting = redis.call('ZCARD', KEYS[4]) + redis.call('LLEN', KEYS[11]) + redis.call('ZCARD', KEYS[5]) + ask['adding']
  local isFull = waiting > ask['most']
  if waiting > ask['most'] * ${1 + RESERVE} or (isFull and last - now + 1 >= ${FEW}) then
    return 0
  end
  local place = math.min(math.max(now, last + 1, 1), ${GREATEST_PLACE})
  local greatest = math.max(place, tonumber(redis.call('HGET', KEYS[10], 'max') or '0'))
  redis.call('HSET', KEYS[10], field, place, 'max', greatest, 'at', at)
  redis.call('EXPIRE', KEYS[10], ${TTL_SECONDS})
  opts['place'] = nil
  opts['priority'] = place
  ARGV[3] = cmsgpack.pack(opts)
end
`;
