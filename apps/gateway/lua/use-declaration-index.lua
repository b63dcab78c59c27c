-- Replaces a stale index of declarations, unless another client has already done so. Without declarations there is none.
--
-- KEYS 1 declarations  2 index  3 the new index
-- ARGV 1 sizes in the stale index, '' for none
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.call('UNLINK', KEYS[2], KEYS[3]) end
if (redis.call('HGET', KEYS[2], '') or '') ~= ARGV[1] then return redis.call('UNLINK', KEYS[3]) end
redis.call('PERSIST', KEYS[3])
redis.call('UNLINK', KEYS[2])
return redis.call('RENAME', KEYS[3], KEYS[2])
