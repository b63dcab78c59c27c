-- An executor is about to begin the effect.
-- KEYS[1] call. ARGV: 1 fence, 2 attempt; for a call that this claim may enter: 3 its deadline by the clock of its gateway, from 4 the
-- arguments of `enter`. The record outlives that deadline, so that of any number of claims one is granted.
-- @returns 1 when it may, else 0
-- Continues prelude.lua.

local record = load()
if not record and ARGV[3] and ARGV[1] == '1' and now <= ARGV[3] + GRACE then
  enter(4, 'claimed', 'attempt', ARGV[2], 'claimed_at', string.format('%d', now))
  return 1
end
if not record or seen(record) ~= 'accepted' or record.fence ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'state', 'claimed', 'attempt', ARGV[2], 'claimed_at', string.format('%d', now))
return 1
