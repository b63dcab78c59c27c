-- Raises the fence, so that another executor may get the call.
-- KEYS[1] call. ARGV: for a call that is not entered yet, those of `enter`.
-- @returns {'accepted', fence} or {state} when refused
-- Continues prelude.lua.

local record = load()
if not record then
  if not ARGV[1] then return {'expired'} end
  enter(1, 'accepted', 'fence', 2)
  return {'accepted', 2}
end
local state = seen(record)
if state ~= 'accepted' and not (state == 'claimed' and record.repeatable) then return {state} end
redis.call('HSET', KEYS[1], 'state', 'accepted', 'fence', record.fence + 1)
return {'accepted', record.fence + 1}
