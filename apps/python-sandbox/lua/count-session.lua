-- Counts the bytes that a session keeps against the quota of its tenant.
-- KEYS: bytes by session, expiry by session in ms (sorted). ARGV: session, bytes (-1: as before), ttl in seconds, quota in bytes.
-- Field '' of the first key is the sum.
-- Returns 1 when they fit, else 0; then nothing changes.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local total = tonumber(redis.call('HGET', KEYS[1], '') or '0')
for _, expired in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  total = total - tonumber(redis.call('HGET', KEYS[1], expired) or '0')
  redis.call('HDEL', KEYS[1], expired)
  redis.call('ZREM', KEYS[2], expired)
end
local before = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
local bytes = tonumber(ARGV[2])
if bytes < 0 then bytes = before end
local fits = bytes <= before or total - before + bytes <= tonumber(ARGV[4])
if fits and bytes > 0 then
  total = total - before + bytes
  redis.call('HSET', KEYS[1], ARGV[1], bytes)
  redis.call('ZADD', KEYS[2], string.format('%d', now + ARGV[3] * 1000), ARGV[1])
end
redis.call('HSET', KEYS[1], '', string.format('%d', total))
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return fits and 1 or 0
