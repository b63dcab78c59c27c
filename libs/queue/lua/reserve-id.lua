-- Reserves the id of a job in the shard that the oldest number of shards gives it, see src/shard-numbers.ts. Returns 'here' if this shard has
-- the job, the shard of an earlier reservation, or nothing when the id is reserved now.
--
-- KEYS 1: the record of the job. ARGV 1: shard of the job, 2: how long the reservation lasts, in ms.
if redis.call('EXISTS', KEYS[1]) == 1 then
  local moved = redis.call('HGET', KEYS[1], 'moved')
  if not moved then return 'here' end
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return moved
end
redis.call('HSET', KEYS[1], 'moved', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return false
