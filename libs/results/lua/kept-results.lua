-- Accounts of the bytes a tenant keeps. KEYS, all under the hash tag `{kept:<tenant>}`:
--   1 sizes  hash  ref -> "bytes keyed"; `~total` and `~keyed` the sums of all and of keyed results
--   2 order  zset  unkeyed refs by the time they were kept: the oldest goes first
--   3 ends   zset  refs by the time their key expires

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function drop(ref)
  local held = redis.call('HGET', KEYS[1], ref)
  if not held then return end
  local bytes, keyed = string.match(held, '^(%d+) (%d)$')
  redis.call('HDEL', KEYS[1], ref)
  redis.call('HINCRBY', KEYS[1], '~total', '-' .. bytes)
  if keyed == '1' then redis.call('HINCRBY', KEYS[1], '~keyed', '-' .. bytes) end
  redis.call('ZREM', KEYS[2], ref)
  redis.call('ZREM', KEYS[3], ref)
end

for _, ref in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 500)) do drop(ref) end
local sums = redis.call('HMGET', KEYS[1], '~total', '~keyed')
local total, keyed_total = tonumber(sums[1] or '0'), tonumber(sums[2] or '0')
