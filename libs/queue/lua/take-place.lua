-- Start of a BullMQ script that adds a job with a priority, see src/fair-share.ts. Sets the place of the job as its priority, or ends
-- the script with 0 when the queue is full for this share; then no place is taken. Ends it with `{shard}` when another shard has the id
-- of the job (reserve-id.lua).
--
-- The jobs of a share are counted by their places, so a job that was just taken may still count. Its large jobs are also counted by their
-- bytes until they have ended; then the script ends with -1 when there is no room.
--
-- KEYS: BullMQ's nine (4 waiting jobs with a place, 5 delayed jobs), then 10 places by share, 11 waiting jobs without a place,
-- 12 bytes of the large jobs of the share by their id.
-- ARGV 1: arguments of BullMQ, packed by MessagePack: 1 prefix of keys, 2 id of the job. ARGV 2: data of the job.
-- ARGV 3: options of the job, packed by MessagePack; `place` is a PlaceRequest.
-- Fields of the places: `s:<share>` last place of a share, `max` greatest place, `at` time of the last one in ms.
do
  local arguments = cmsgpack.unpack(ARGV[1])
  local moved = redis.call('HGET', arguments[1] .. arguments[2], 'moved')
  if moved then return {moved} end
  -- The greatest priority of BullMQ.
  local greatest_place = 2097152
  -- Longer than any job waits, in seconds.
  local ttl = 86400
  -- An idle queue starts again at place 1 after this time, in ms.
  local idle = 1000
  -- A full queue still takes a tenth of its length, from shares with fewer than ten waiting jobs.
  local with_reserve = 1.1
  local few = 10
  -- Data of more bytes are counted.
  local large = 65536

  local opts = cmsgpack.unpack(ARGV[3])
  local request = opts['place']
  local time = redis.call('TIME')
  local at = time[1] * 1000 + math.floor(time[2] / 1000)
  local first = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
  local now = 1
  if #first > 0 then
    now = math.floor(tonumber(first[2]) / 0x100000000)
  elseif at - tonumber(redis.call('HGET', KEYS[10], 'at') or '0') > idle then
    redis.call('DEL', KEYS[10])
  else
    now = tonumber(redis.call('HGET', KEYS[10], 'max') or '1')
  end
  local field = 's:' .. request['share']
  local last = tonumber(redis.call('HGET', KEYS[10], field) or '0')
  local waiting = redis.call('ZCARD', KEYS[4]) + redis.call('LLEN', KEYS[11]) + redis.call('ZCARD', KEYS[5])
    + request['adding']
  local is_full = waiting > request['most']
  if waiting > request['most'] * with_reserve or (is_full and last - now + 1 >= few) then
    return 0
  end
  if #ARGV[2] > large then
    local bytes = 0
    local jobs = redis.call('HGETALL', KEYS[12])
    for at = 1, #jobs, 2 do
      local times = redis.call('HMGET', arguments[1] .. jobs[at], 'timestamp', 'finishedOn')
      if times[1] and not times[2] then
        bytes = bytes + tonumber(jobs[at + 1])
      else
        redis.call('HDEL', KEYS[12], jobs[at])
      end
    end
    if bytes > 0 and bytes + #ARGV[2] > request['most_bytes'] then
      return -1
    end
    redis.call('HSET', KEYS[12], arguments[2], #ARGV[2])
    redis.call('EXPIRE', KEYS[12], ttl)
  end
  local place = math.min(math.max(now, last + 1, 1), greatest_place)
  local greatest = math.max(place, tonumber(redis.call('HGET', KEYS[10], 'max') or '0'))
  redis.call('HSET', KEYS[10], field, place, 'max', greatest, 'at', at)
  redis.call('EXPIRE', KEYS[10], ttl)
  opts['place'] = nil
  opts['priority'] = place
  ARGV[3] = cmsgpack.pack(opts)
end
