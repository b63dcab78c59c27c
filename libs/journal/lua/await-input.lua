-- The tool of a claimed call asked for input before it ran: the call may be entered again.
-- KEYS[1] call. ARGV: 1 ms until it expires.
-- @returns 1 when it waits, else 0
-- Continues prelude.lua.

local record = load()
if not record or record.state ~= 'claimed' then return 0 end
redis.call('HSET', KEYS[1], 'state', 'accepted', 'fence', record.fence + 1, 'deadline_at', string.format('%d', now + ARGV[1]))
return 1
