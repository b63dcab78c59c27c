-- Takes from a call the right to begin, because another call gets its idempotency key. Not once its effect may have begun, unless
-- it may begin again. A call that its process has not entered yet gets a record, in case that process was only suspended.
-- KEYS[1] call. ARGV: 1 retention ms.
-- @returns 1 when the call can begin no more, else 0
-- Continues prelude.lua.

local record = load()
local state = record and seen(record) or 'accepted'
local may_begin = state == 'accepted' or (state == 'claimed' and record.repeatable)
if may_begin then state = 'cancelled' end
if state ~= 'cancelled' and state ~= 'expired' then return 0 end
-- Long past its deadline, the call cannot enter again.
redis.call('HSET', KEYS[1], 'state', state, 'deadline_at', '0', 'ended_at', string.format('%d', now))
if not record then
  redis.call('HSET', KEYS[1], 'fence', 1, 'attempt', 0)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 1
