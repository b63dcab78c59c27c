-- An executor is about to begin the effect.
-- KEYS[1] call. ARGV: 1 fence, 2 attempt.
-- @returns 1 when it may, else 0
-- Continues prelude.lua.

local record = load()
if not record or seen(record) ~= 'accepted' or record.fence ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'state', 'claimed', 'attempt', ARGV[2], 'claimed_at', string.format('%d', now))
return 1
