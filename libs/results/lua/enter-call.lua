-- Stores a call that may be stored already: one that waits for an approval, or whose approval was given. A program that runs waits again
-- for an approval with another job; it keeps when it was accepted. An earlier approval does not wake it.
-- KEYS: 1 hash of the call, 2 stream of its events.
-- ARGV: 1 state, 2 TTL in seconds, 3 event as JSON, or '', 4 job, or '', 5 on: names and values of fields.
-- @returns 1, or 0 when the call is stored in this state or a later one

local state = redis.call('HGET', KEYS[1], 'state')
local job = redis.call('HGET', KEYS[1], 'job') or ''
local runs = state == 'accepted' or state == 'claimed'
local waits_again = runs and ARGV[1] == 'awaiting_approval' and ARGV[4] ~= '' and job ~= ARGV[4]
local is_decided = state == 'awaiting_approval' and ARGV[1] ~= state and (job == '' or job == ARGV[4])
if state and not waits_again and not is_decided then return 0 end
local accepted_at = redis.call('HGET', KEYS[1], 'accepted_at')
redis.call('HDEL', KEYS[1], 'deadline_at')
redis.call('HSET', KEYS[1], 'state', ARGV[1], unpack(ARGV, 5))
if accepted_at then redis.call('HSET', KEYS[1], 'accepted_at', accepted_at) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
if ARGV[3] ~= '' then
  redis.call('XADD', KEYS[2], '*', 'event', ARGV[3])
  redis.call('EXPIRE', KEYS[2], ARGV[2])
end
return 1
