/**
 * Makes a tenant known with what the ledger says it spent; whoever comes second changes nothing.
 *
 * KEYS as in the prelude. ARGV per scope: name, spent micro-USD, spent tokens. A scope `today` is the current day.
 * Returns 1, or 0 when the tenant was known.
 */
export const REBUILD = String.raw`
if redis.call('HEXISTS', KEYS[1], 'tenant') == 1 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields, seen = { 'tenant', string.format('0 0 0 0 %d', now) }, {}
for at = 1, #ARGV, 3 do
  local name, micro, tokens = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  if name == 'today' then name = string.format('day:%d', math.floor(now / 86400000)) end
  fields[#fields + 1] = name
  fields[#fields + 1] = string.format('%d 0 %d 0 %d', micro, tokens, now)
  if name ~= 'tenant' then
    seen[#seen + 1] = now
    seen[#seen + 1] = name
  end
end
for at = 1, #fields, 2000 do
  redis.call('HSET', KEYS[1], unpack(fields, at, math.min(at + 1999, #fields)))
end
for at = 1, #seen, 2000 do
  redis.call('ZADD', KEYS[2], unpack(seen, at, math.min(at + 1999, #seen)))
end
return 1
`;
