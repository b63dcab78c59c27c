-- Stores the outcome of a call.
-- KEYS[1] call. ARGV: 1 fence or 'current', 2 succeeded | failed | outcome_unknown, 3 outcome as JSON,
-- 4 reference of its payload in the result store, or ''; for a call that is not entered yet: from 5 the arguments of `enter`.
-- @returns 1 when stored, else 0
-- Continues prelude.lua.

local record = load()
if not record then
  if not ARGV[5] then return 0 end
  enter(5, 'accepted')
  record = load()
end
if ARGV[1] ~= 'current' and tonumber(ARGV[1]) ~= record.fence then return 0 end
if record.state ~= 'accepted' and record.state ~= 'claimed' and record.state ~= 'outcome_unknown' then return 0 end
if record.state == 'outcome_unknown' and ARGV[2] == 'outcome_unknown' then return 0 end
redis.call('HSET', KEYS[1], 'state', ARGV[2], 'outcome', ARGV[3], 'ended_at', string.format('%d', now))
if ARGV[4] and ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'object', ARGV[4]) else redis.call('HDEL', KEYS[1], 'object') end
return 1
