#!lua flags=allow-oom
-- Marks an API key revoked; a second revocation keeps the first instant.
-- KEYS: 1 keys, 2 revoked. ARGV: 1 id, 2 instant in ms.
-- The flag lets it run while Redis is full (needs Redis 7).
-- @returns 1, or 0 when there is no such key

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])
return 1
