/**
 * Accounts of the bytes a tenant keeps. KEYS, all under the hash tag `{kept:<tenant>}`:
 *   1 sizes  hash  ref -> "bytes keyed"; `~total` and `~keyed` the sums of all and of keyed results
 *   2 order  zset  unkeyed refs by the time they were kept: the oldest goes first
 *   3 ends   zset  refs by the time their key expires
 */
const PRELUDE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function drop(ref)
  local held = redis.call('HGET', KEYS[1], ref)
  if not held then return end
  local bytes, keyed = string.match(held, '^(%d+) (%d)$')
  redis.call('HDEL', KEYS[1], ref)
  redis.call('HINCRBY', KEYS[1], '~total', '-' .. bytes)
  if keyed == '1' then redis.call('HINCRBY', KEYS[1], '~keyed', '-' .. bytes) end
  redis.call('ZREM', KEYS[2], ref)
  redis.call('ZREM', KEYS[3], ref)
end

for _, ref in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 500)) do drop(ref) end
local sums = redis.call('HMGET', KEYS[1], '~total', '~keyed')
local total, keyed_total = tonumber(sums[1] or '0'), tonumber(sums[2] or '0')
`;

/**
 * Accounts a result, in place of what its ref had before. ARGV: 1 ref, 2 bytes, 3 keyed (1/0), 4 TTL ms, 5 quota in bytes.
 * @returns {1, refs to delete…}, or {0} when it does not fit although every unkeyed result went: nothing is changed then
 */
export const KEEP_RESULT = `${PRELUDE}
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
`;

/** Whether there is room for one more result. ARGV: 1 quota in bytes. @returns 1 or 0 */
export const ADMIT_RESULT = `${PRELUDE}
if keyed_total >= tonumber(ARGV[1]) then return 0 end
return 1
`;

/** Forgets a ref. ARGV: 1 ref. */
export const DROP_RESULT = `${PRELUDE}
drop(ARGV[1])
return total
`;
