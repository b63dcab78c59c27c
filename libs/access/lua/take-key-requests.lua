-- Counts requests of one caller in fixed windows of a minute, an hour and a day on Redis TIME. Nothing is counted beyond what
-- is granted.
-- KEYS[1] hash {mw,m,hw,h,dw,d}: start of each window in seconds and its count.
-- ARGV: 1 requests asked for, 2-4 limits per minute, hour and day, 5 fewest requests worth granting.
-- @returns {granted, left minute, left hour, left day, now in seconds}

local now = tonumber(redis.call('TIME')[1])
local asked = tonumber(ARGV[1])
local sizes = {60, 3600, 86400}
local names = {'mw', 'm', 'hw', 'h', 'dw', 'd'}
local stored = redis.call('HMGET', KEYS[1], unpack(names))
local granted = asked
local starts, counts = {}, {}
for i = 1, 3 do
  starts[i] = now - now % sizes[i]
  counts[i] = 0
  if tonumber(stored[2 * i - 1] or '-1') == starts[i] then counts[i] = tonumber(stored[2 * i] or '0') end
  granted = math.min(granted, math.max(0, tonumber(ARGV[1 + i]) - counts[i]))
end
if granted < tonumber(ARGV[5]) then granted = 0 end
local left = {}
local write = {}
for i = 1, 3 do
  counts[i] = counts[i] + granted
  left[i] = math.max(0, tonumber(ARGV[1 + i]) - counts[i])
  write[#write + 1] = names[2 * i - 1]
  write[#write + 1] = string.format('%d', starts[i])
  write[#write + 1] = names[2 * i]
  write[#write + 1] = string.format('%d', counts[i])
end
if granted > 0 then
  redis.call('HSET', KEYS[1], unpack(write))
  redis.call('EXPIRE', KEYS[1], 90000)
end
return {granted, left[1], left[2], left[3], now}
