-- Raises the spending counters of a tenant to the sums of the ledger, and makes the tenant known. A charge is in the outbox before it is
-- in the ledger, so counters are below the ledger only after Redis lost data, was restored from an older copy, or a lagging replica
-- became the primary. May be repeated and run concurrently with calls.
--
-- KEYS as in the prelude. ARGV per scope: name, spent micro-USD, spent tokens.
-- Returns how many scopes were raised.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields, seen, raised = {}, {}, 0
local known = redis.call('HEXISTS', KEYS[1], 'tenant') == 1
for at = 1, #ARGV, 3 do
  local name, micro, tokens = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local value = redis.call('HGET', KEYS[1], name)
  local spent, held, spentTokens, heldTokens, used = 0, 0, 0, 0, now
  if value then
    spent, held, spentTokens, heldTokens, used = string.match(value, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
    if not spent then error('BUDGET_STATE counters are not integers') end
    spent, spentTokens = tonumber(spent), tonumber(spentTokens)
  end
  if micro > spent or tokens > spentTokens then
    fields[#fields + 1] = name
    fields[#fields + 1] = string.format('%d %d %d %d %d', math.max(micro, spent), tonumber(held),
      math.max(tokens, spentTokens), tonumber(heldTokens), tonumber(used))
    if name == 'tenant' then known = true end
    if name ~= 'tenant' and not value then
      seen[#seen + 1] = now
      seen[#seen + 1] = name
    end
  end
end
raised = #fields / 2
if not known then
  fields[#fields + 1] = 'tenant'
  fields[#fields + 1] = string.format('0 0 0 0 %d', now)
end
for at = 1, #fields, 2000 do
  redis.call('HSET', KEYS[1], unpack(fields, at, math.min(at + 1999, #fields)))
end
for at = 1, #seen, 2000 do
  redis.call('ZADD', KEYS[2], unpack(seen, at, math.min(at + 1999, #seen)))
end
return raised
