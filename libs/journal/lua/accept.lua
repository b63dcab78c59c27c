-- Enters a call, or reopens it for its next attempt.
-- KEYS[1] call. ARGV: 1 an earlier run may have begun (1/0): without a record the outcome of a call that is not repeatable is unknown,
-- 2 to 9 those of `enter`.
-- @returns {'accepted', fence} or {state}
-- Continues prelude.lua.

local record = load()
if not record then
  if ARGV[1] == '1' and ARGV[8] ~= '1' then
    enter(2, 'outcome_unknown', 'ended_at', string.format('%d', now))
    return {'outcome_unknown'}
  end
  enter(2, 'accepted')
  return {'accepted', 1}
end
local state = seen(record)
local taken_back = (record.state == 'expired' or record.state == 'cancelled') and now <= record.deadline + GRACE
if state == 'accepted' or (state == 'claimed' and record.repeatable) or taken_back then
  redis.call('HDEL', KEYS[1], 'ended_at')
  redis.call('HSET', KEYS[1], 'state', 'accepted', 'fence', record.fence + 1, 'deadline_at',
    string.format('%d', now + ARGV[2]))
  return {'accepted', record.fence + 1}
end
return {state}
