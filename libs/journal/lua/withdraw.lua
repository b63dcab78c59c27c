-- Withdraws a call that no executor has claimed.
-- KEYS[1] call. ARGV: 1 cancelled | expired; for a call that is not entered yet: from 2 the arguments of `enter`. Its record then
-- refuses a claim that is still under way.
-- @returns {state afterwards, id of its idempotency key or '', 1 when this run withdrew it}, or nil without a record
-- Continues prelude.lua.

local record = load()
if not record then
  if not ARGV[2] then return nil end
  enter(2, ARGV[1], 'ended_at', string.format('%d', now))
  return {ARGV[1], '', 1}
end
local state = seen(record)
local key = redis.call('HGET', KEYS[1], 'key') or ''
if state ~= 'accepted' then return {state, key, 0} end
redis.call('HSET', KEYS[1], 'state', ARGV[1], 'ended_at', string.format('%d', now))
return {ARGV[1], key, 1}
