-- Stores a call that may be stored already: one that waits for an approval, or whose approval was given.
-- KEYS: 1 hash of the call, 2 stream of its events.
-- ARGV: 1 state, 2 TTL in seconds, 3 event as JSON, or '', 4 on: names and values of fields.
-- @returns 1, or 0 when the call is stored in this state or a later one

local state = redis.call('HGET', KEYS[1], 'state')
if state and (state ~= 'awaiting_approval' or state == ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'state', ARGV[1], unpack(ARGV, 4))
redis.call('EXPIRE', KEYS[1], ARGV[2])
if ARGV[3] ~= '' then
  redis.call('XADD', KEYS[2], '*', 'event', ARGV[3])
  redis.call('EXPIRE', KEYS[2], ARGV[2])
end
return 1
