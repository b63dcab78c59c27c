/**
 * Removes definitions of one owner; keys of others are left alone.
 *
 * KEYS as in put-8. ARGV 1 owner  2 `keep` (all but the named), `only` (the named) or `all`  3.. keys
 * Returns {version, removed keys}.
 */
export const REMOVE = String.raw`
local owner, mode = ARGV[1], ARGV[2]
local named, removed = {}, {}
for at = 3, #ARGV do named[ARGV[at]] = true end
for _, key in ipairs(redis.call('SMEMBERS', KEYS[6])) do
  if mode == 'all' or (mode == 'keep' and not named[key]) or (mode == 'only' and named[key]) then
    removed[#removed + 1] = key
  end
end
local version = tonumber(redis.call('GET', KEYS[5]) or '0')
if #removed > 0 then
  version = redis.call('INCR', KEYS[5])
  for _, key in ipairs(removed) do
    redis.call('HDEL', KEYS[1], key)
    redis.call('HDEL', KEYS[2], key)
    redis.call('HDEL', KEYS[3], key)
    redis.call('SREM', KEYS[6], key)
    redis.call('ZADD', KEYS[4], version, key)
  end
end
if redis.call('SCARD', KEYS[6]) == 0 then
  redis.call('ZREM', KEYS[7], owner)
  redis.call('SREM', KEYS[8], owner)
end
return { version, removed }
`;
