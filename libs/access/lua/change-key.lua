-- Replaces the record of an API key. A key that was erased meanwhile stays erased.
-- KEYS: 1 keys. ARGV: 1 id, 2 record.
-- @returns 1, or 0 when there is no such key

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
