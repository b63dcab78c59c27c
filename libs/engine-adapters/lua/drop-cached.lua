-- Invalidates the results of a scope by another version. A scope without a version has no results: it is marked instead, and until the
-- mark ends, lookups get no version.
-- KEYS[1] version of the scope, KEYS[2] mark. ARGV: 1 next version, 2 its life in ms, 3 life of the mark in ms.
-- @returns 1 when the scope was marked, else 0

if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 0
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[3])
return 1
