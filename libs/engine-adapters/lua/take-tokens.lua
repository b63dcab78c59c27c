-- Token bucket as GCRA on Redis TIME; the same arithmetic as `takeTokens` of libs/resilience, in microseconds.
-- KEYS[1] theoretical arrival time. ARGV: 1 tokens per period, 2 period in ms, 3 asked (0 only looks).
-- @returns {granted, remaining, retry after ms, reset ms}

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local rate, period, asked = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local interval = math.max(1, math.ceil(period * 1000 / rate))
local tolerance = interval * rate
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now)
local available = math.max(0, math.floor((tolerance - (tat - now)) / interval))
local granted = math.min(asked, available)
local settled = tat + granted * interval
local reset = math.ceil((settled - now) / 1000)
if granted > 0 then
  redis.call('SET', KEYS[1], string.format('%.0f', settled), 'PX', string.format('%.0f', math.max(1, reset)))
end
local retry = 0
if granted < asked then retry = math.max(1, math.ceil((settled + interval - tolerance - now) / 1000)) end
return {granted, available - granted, retry, reset}
