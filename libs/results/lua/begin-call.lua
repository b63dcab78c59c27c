-- Marks an asynchronous call as claimed by a worker and adds the event `started`.
-- KEYS: 1 hash of the call, 2 stream of its events. ARGV: 1 event as JSON, 2 TTL of the events in seconds.
-- @returns 1, or 0 when the call has ended

local state = redis.call('HGET', KEYS[1], 'state')
if state and state ~= 'accepted' and state ~= 'claimed' then return 0 end
if state then redis.call('HSET', KEYS[1], 'state', 'claimed') end
redis.call('XADD', KEYS[2], '*', 'event', ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1
