-- Reads one API key in one step, so that a revocation is never missed.
-- KEYS: 1 keys, 2 revoked, 3 last uses. ARGV: 1 id.
-- @returns {record, revoked at, last used at}, each nil when absent

return {redis.call('HGET', KEYS[1], ARGV[1]), redis.call('HGET', KEYS[2], ARGV[1]), redis.call('HGET', KEYS[3], ARGV[1])}
