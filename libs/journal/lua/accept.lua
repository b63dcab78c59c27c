-- Enters a call, or reopens it for its next attempt.
-- KEYS[1] call. ARGV: 1 remaining ms, 2 repeatable (1/0), 3 tenant, 4 tool, 5 id of its idempotency key or '', 6 retention ms,
-- 7 an earlier run may have begun (1/0): without a record the outcome of a call that is not repeatable is unknown, 8 user or ''.
-- @returns {'accepted', fence} or {state}
-- Continues prelude.lua.

local record = load()
if not record then
  local lost = ARGV[7] == '1' and ARGV[2] ~= '1'
  local state = lost and 'outcome_unknown' or 'accepted'
  redis.call('HSET', KEYS[1], 'state', state, 'fence', 1, 'attempt', 0, 'repeatable', ARGV[2], 'tenant', ARGV[3], 'user', ARGV[8],
    'tool', ARGV[4], 'key', ARGV[5], 'accepted_at', string.format('%d', now), 'deadline_at', string.format('%d', now + ARGV[1]))
  redis.call('PEXPIRE', KEYS[1], string.format('%d', math.max(0, tonumber(ARGV[1])) + ARGV[6]))
  if lost then
    redis.call('HSET', KEYS[1], 'ended_at', string.format('%d', now))
    return {state}
  end
  return {state, 1}
end
local state = seen(record)
local taken_back = (record.state == 'expired' or record.state == 'cancelled') and now <= record.deadline + GRACE
if state == 'accepted' or (state == 'claimed' and record.repeatable) or taken_back then
  redis.call('HDEL', KEYS[1], 'ended_at')
  redis.call('HSET', KEYS[1], 'state', 'accepted', 'fence', record.fence + 1)
  return {'accepted', record.fence + 1}
end
return {state}
