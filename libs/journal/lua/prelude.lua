-- Shared head of the journal scripts. KEYS[1] is the hash of one call, `{c:<call_id>}`: state, fence, attempt, repeatable,
-- tenant, user, maker, tool, key, accepted_at, claimed_at, ended_at, deadline_at, outcome, object. All instants are Redis TIME in ms.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local GRACE = 5000

local function load()
  local fields = redis.call('HMGET', KEYS[1], 'state', 'fence', 'repeatable', 'deadline_at')
  if not fields[1] then return nil end
  return { state = fields[1], fence = tonumber(fields[2]), repeatable = fields[3] == '1', deadline = tonumber(fields[4]) }
end

-- Enters a call that has no record, in a state and with further fields. Arguments from ARGV[first]: remaining ms, retention ms, tenant,
-- tool, user, maker, and where they are not the defaults: repeatable (1/0) and id of its idempotency key.
local function enter(first, state, ...)
  redis.call('HSET', KEYS[1], 'state', state, 'fence', 1, 'attempt', 0, 'repeatable', ARGV[first + 6] or '0',
    'tenant', ARGV[first + 2], 'tool', ARGV[first + 3], 'user', ARGV[first + 4], 'maker', ARGV[first + 5], 'key', ARGV[first + 7] or '',
    'accepted_at', string.format('%d', now), 'deadline_at', string.format('%d', now + ARGV[first]), ...)
  redis.call('PEXPIRE', KEYS[1], string.format('%d', math.max(0, tonumber(ARGV[first])) + ARGV[first + 1]))
end

-- The state at this instant: an overdue record ends without a write.
local function seen(record)
  if now <= record.deadline + GRACE then return record.state end
  if record.state == 'accepted' then return 'expired' end
  if record.state == 'claimed' then return 'outcome_unknown' end
  return record.state
end
