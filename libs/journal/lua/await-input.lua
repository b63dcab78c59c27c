-- A call waits: its tool asked for input before it ran, or its program for the decision of people. It may be entered again.
-- KEYS[1] call. ARGV: 1 ms until it expires.
-- @returns 1 when it waits, else 0
-- Continues prelude.lua.

local record = load()
if not record or (record.state ~= 'claimed' and seen(record) ~= 'accepted') then return 0 end
redis.call('HSET', KEYS[1], 'state', 'accepted', 'fence', record.fence + 1, 'deadline_at', string.format('%d', now + ARGV[1]))
if redis.call('PTTL', KEYS[1]) < ARGV[1] + GRACE then redis.call('PEXPIRE', KEYS[1], string.format('%d', ARGV[1] + GRACE)) end
return 1
