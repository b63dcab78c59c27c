-- Replaces one definition if it is still the one the caller saw. A key that was removed, belongs to another owner or changed
-- is left alone.
--
-- KEYS as in put.lua. ARGV 1 owner  2 key  3 stamp  4 JSON  5 stamp seen. Returns {version, changed keys}.

local key = ARGV[2]
if redis.call('HGET', KEYS[1], key) ~= ARGV[1] or redis.call('HGET', KEYS[2], key) ~= ARGV[5] then
  return { tonumber(redis.call('GET', KEYS[5]) or '0'), {} }
end
redis.call('HSET', KEYS[2], key, ARGV[3])
redis.call('HSET', KEYS[3], key, ARGV[4])
local version = redis.call('INCR', KEYS[5])
redis.call('ZADD', KEYS[4], version, key)
return { version, { key } }
