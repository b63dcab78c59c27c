-- Accounts a result, in place of what its ref had before. ARGV: 1 ref, 2 bytes, 3 keyed (1/0), 4 TTL ms, 5 quota in bytes.
-- @returns {1, refs to delete…}, or {0} when it does not fit although every unkeyed result went: nothing is changed then
-- Continues kept-results.lua.

local ref, bytes, keyed, quota = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[5])
local held = redis.call('HGET', KEYS[1], ref)
local own, own_keyed = 0, 0
if held then
  local b, k = string.match(held, '^(%d+) (%d)$')
  own = tonumber(b)
  if k == '1' then own_keyed = own end
end
if keyed_total - own_keyed + bytes > quota then return {0} end
drop(ref)
total = total - own
local reply = {1}
while total + bytes > quota do
  local oldest = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if not oldest then break end
  total = total - tonumber(string.match(redis.call('HGET', KEYS[1], oldest), '^(%d+)'))
  drop(oldest)
  reply[#reply + 1] = oldest
end
redis.call('HSET', KEYS[1], ref, ARGV[2] .. ' ' .. keyed)
redis.call('HINCRBY', KEYS[1], '~total', ARGV[2])
if keyed == '1' then redis.call('HINCRBY', KEYS[1], '~keyed', ARGV[2]) else redis.call('ZADD', KEYS[2], now, ref) end
redis.call('ZADD', KEYS[3], string.format('%d', now + ARGV[4]), ref)
return reply
