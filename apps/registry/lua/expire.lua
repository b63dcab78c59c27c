-- Marks an owner that did not repeat its announcement in time as away. Only the call that marks it receives its keys.
--
-- KEYS as in put.lua. ARGV 1 owner. Returns {version, keys}, or {} when the owner is not overdue. Server time only.

local owner = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local until_ms = redis.call('ZSCORE', KEYS[7], owner)
if not until_ms or tonumber(until_ms) > now then return {} end
redis.call('ZREM', KEYS[7], owner)
redis.call('SADD', KEYS[8], owner)
local keys = redis.call('SMEMBERS', KEYS[6])
local version = tonumber(redis.call('GET', KEYS[5]) or '0')
if #keys > 0 then
  version = redis.call('INCR', KEYS[5])
  for _, key in ipairs(keys) do redis.call('ZADD', KEYS[4], version, key) end
end
return { version, keys }
