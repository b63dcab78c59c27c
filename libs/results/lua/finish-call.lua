-- Ends an asynchronous call once and adds the event `done`.
-- KEYS: 1 hash of the call, 2 stream of its events.
-- ARGV: 1 state, 2 result as JSON, 3 event as JSON, 4 now in ms, 5 TTL in seconds,
-- 6 reference of the result in the result store, or ''.
-- @returns 1, or 0 when the call has ended or does not exist

local state = redis.call('HGET', KEYS[1], 'state')
if not state or (state ~= 'accepted' and state ~= 'claimed' and state ~= 'awaiting_approval') then return 0 end
redis.call('HSET', KEYS[1], 'state', ARGV[1], 'result', ARGV[2], 'finished_at', ARGV[4])
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'object', ARGV[6]) end
redis.call('XADD', KEYS[2], '*', 'event', ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[5])
redis.call('EXPIRE', KEYS[2], ARGV[5])
return 1
