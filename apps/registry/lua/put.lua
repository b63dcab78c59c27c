-- Writes definitions of one owner. The script checks that a name is free and takes it in one step: with a read followed by a
-- write, two replicas that register at the same time could both own it.
--
-- KEYS 1 owners hash (key -> owner)  2 stamps hash (key -> stamp; ~owner -> stamp of its registration)  3 tools hash (key -> JSON)  4 changes zset (key -> version)
--      5 version  6 names set of this owner  7 leases zset (owner -> end, ms)  8 away set of owners
--      9 registrations hash (owner -> JSON)  10 owners of the registrations of the tenant
-- ARGV 1 owner  2 lease in ms, or -1 for none  3 stamp of the registration the tools result from, or ''
--      4 `same`: write only if that registration is stored; `new`: store it unless all tools belong to others; ''
--      5 JSON of a `new` registration, else ''  6 most registrations of a tenant  7 most bytes of them
--      8.. key, stamp, JSON and the stamp the decision was based on ('' absent, '*' any) of each tool
-- Returns {version, added keys, changed keys, [key, owner]* of conflicts, moved keys, 1 stored | 0 not | -1 superseded |
-- -2 beyond the quota of registrations of its tenant | -3 of their bytes, and then nothing is written}.
-- Server time only.
-- Continues is-kept.lua.

local ttl, registration, mode = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local version = tonumber(redis.call('GET', KEYS[5]) or '0')
if mode == 'same' and not is_kept(registration) then
  return { version, {}, {}, {}, {}, -1 }
end
-- The owner of a tenant's registration is kind/name@tenant.
local tenant = owner:match('@(.*)$')
if mode == 'new' and tenant then
  local count, bytes = 1, #ARGV[5]
  for _, other in ipairs(redis.call('SMEMBERS', KEYS[10])) do
    if other ~= owner then count, bytes = count + 1, bytes + redis.call('HSTRLEN', KEYS[9], other) end
  end
  if count > tonumber(ARGV[6]) then return { version, {}, {}, {}, {}, -2 } end
  if bytes > tonumber(ARGV[7]) then return { version, {}, {}, {}, {}, -3 } end
end
local added, changed, conflicts, moved, touched, seen = {}, {}, {}, {}, {}, {}
local mine = 0
for at = 8, #ARGV, 4 do
  local key, stamp, basis = ARGV[at], ARGV[at + 1], ARGV[at + 3]
  local holder = redis.call('HGET', KEYS[1], key)
  if holder and holder ~= owner then
    conflicts[#conflicts + 1] = key
    conflicts[#conflicts + 1] = holder
  else
    mine = mine + 1
    local current = holder and redis.call('HGET', KEYS[2], key) or ''
    if current == stamp then
      -- Unchanged.
    elseif basis ~= '*' and basis ~= current then
      moved[#moved + 1] = key
    else
      if holder then changed[#changed + 1] = key else added[#added + 1] = key end
      touched[#touched + 1] = key
      seen[key] = true
      redis.call('HSET', KEYS[1], key, owner)
      redis.call('HSET', KEYS[2], key, stamp)
      redis.call('HSET', KEYS[3], key, ARGV[at + 2])
      redis.call('SADD', KEYS[6], key)
    end
  end
end
if redis.call('SREM', KEYS[8], owner) == 1 then
  for _, key in ipairs(redis.call('SMEMBERS', KEYS[6])) do
    if not seen[key] then
      changed[#changed + 1] = key
      touched[#touched + 1] = key
    end
  end
end
if ttl >= 0 then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZADD', KEYS[7], string.format('%d', now + ttl), owner)
else
  redis.call('ZREM', KEYS[7], owner)
end
local kept = mode == 'same' and 1 or 0
if mode == 'new' and (mine > 0 or #ARGV == 7) then
  redis.call('HSET', KEYS[9], owner, ARGV[5])
  if tenant then redis.call('SADD', KEYS[10], owner) end
  redis.call('HSET', KEYS[2], '~' .. owner, registration)
  kept = 1
end
if #touched > 0 then
  version = redis.call('INCR', KEYS[5])
  for _, key in ipairs(touched) do redis.call('ZADD', KEYS[4], version, key) end
end
return { version, added, changed, conflicts, moved, kept }
