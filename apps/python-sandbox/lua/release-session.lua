-- Ends the lease of a session and renews its expiry. A holder that lost its lease changes nothing.
-- KEYS: lock, variables. ARGV: holder, ttl in seconds, new variables (absent: keep the old ones).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[3] then redis.call('SET', KEYS[2], ARGV[3], 'EX', ARGV[2]) else redis.call('EXPIRE', KEYS[2], ARGV[2]) end
redis.call('DEL', KEYS[1])
return 1
