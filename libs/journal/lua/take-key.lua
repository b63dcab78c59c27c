-- Idempotency keys: a string per key, `<call_id> <fingerprint> <until> <process>`, in its own slot.
-- KEYS[1] key. ARGV: 1 call id, 2 fingerprint, 3 remaining ms + grace, 4 retention ms, 5 call id it may be taken from or '',
-- 6 process that runs the call, '' if another one continues it.
-- @returns the entry of the holder afterwards

local held = redis.call('GET', KEYS[1])
if held then
  local holder = string.match(held, '^(%S+)')
  if holder ~= ARGV[1] and holder ~= ARGV[5] then return held end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local entry = ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. string.format('%d', now + ARGV[3]) .. ' ' .. ARGV[6]
redis.call('SET', KEYS[1], entry, 'PX', string.format('%d', math.max(0, tonumber(ARGV[3])) + ARGV[4]))
return entry
