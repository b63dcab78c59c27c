-- Removes definitions of one owner. Keys of other owners are left alone.
--
-- KEYS as in put.lua. ARGV 1 owner  2 `keep` (all but the named), `only` (the named), `forget` (all, and the registration) or
--      `orphans` (all, if no registration is stored)  3 stamp of the registration that must be stored, or ''  4.. keys
-- Returns {version, removed keys, 1 if a registration was removed}.
-- Continues is-kept.lua.

local mode, registration = ARGV[2], ARGV[3]
local version = tonumber(redis.call('GET', KEYS[5]) or '0')
local stale = registration ~= '' and not is_kept(registration)
if stale or (mode == 'orphans' and redis.call('HEXISTS', KEYS[9], owner) == 1) then return { version, {}, 0 } end
local forgotten = 0
if mode == 'forget' then
  forgotten = redis.call('HDEL', KEYS[9], owner)
  redis.call('SREM', KEYS[10], owner)
  redis.call('HDEL', KEYS[2], '~' .. owner)
end
local named, removed = {}, {}
for at = 4, #ARGV do named[ARGV[at]] = true end
for _, key in ipairs(redis.call('SMEMBERS', KEYS[6])) do
  if (mode == 'keep' and not named[key]) or (mode == 'only' and named[key]) or mode == 'forget' or mode == 'orphans' then
    removed[#removed + 1] = key
  end
end
if #removed > 0 then
  version = redis.call('INCR', KEYS[5])
  for _, key in ipairs(removed) do
    redis.call('HDEL', KEYS[1], key)
    redis.call('HDEL', KEYS[2], key)
    redis.call('HDEL', KEYS[3], key)
    redis.call('SREM', KEYS[6], key)
    redis.call('ZADD', KEYS[4], version, key)
  end
end
if redis.call('SCARD', KEYS[6]) == 0 then
  redis.call('ZREM', KEYS[7], owner)
  redis.call('SREM', KEYS[8], owner)
end
return { version, removed, forgotten }
