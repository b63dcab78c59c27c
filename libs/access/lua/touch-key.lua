-- Notes a use of an API key; an older instant than the stored one changes nothing.
-- KEYS: 1 keys, 2 last uses. ARGV: 1 id, 2 instant in ms.
-- @returns 1, or 0 when there is no such key

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
local before = redis.call('HGET', KEYS[2], ARGV[1])
if not before or tonumber(before) < tonumber(ARGV[2]) then redis.call('HSET', KEYS[2], ARGV[1], ARGV[2]) end
return 1
