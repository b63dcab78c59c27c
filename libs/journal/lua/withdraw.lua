-- Withdraws a call that no executor has claimed.
-- KEYS[1] call. ARGV: 1 cancelled | expired.
-- @returns {state afterwards, id of its idempotency key or '', 1 when this run withdrew it}, or nil without a record
-- Continues prelude.lua.

local record = load()
if not record then return nil end
local state = seen(record)
local key = redis.call('HGET', KEYS[1], 'key') or ''
if state ~= 'accepted' then return {state, key, 0} end
redis.call('HSET', KEYS[1], 'state', ARGV[1], 'ended_at', string.format('%d', now))
return {ARGV[1], key, 1}
