-- Stores a new API key unless its id is taken, its client has too many live keys, its tenant too many keys, or the key that makes it
-- is not live. A tenant with too many keys first loses those that have ended and have made none.
-- KEYS: 1 keys, 2 revoked, 3 ids of the client, 4 ids of the tenant, 5 used.
-- ARGV: 1 id, 2 record as JSON, 3 now in ms, 4 most live keys of a client, 5 id of the key that makes it, or '',
--       6 most keys of a tenant.
-- @returns 'created', 'id_taken', 'too_many', 'tenant_full' or 'parent_ended'

local function is_live(id)
  local stored = redis.call('HGET', KEYS[1], id)
  if not stored or redis.call('HEXISTS', KEYS[2], id) == 1 then return false end
  local expires = cjson.decode(stored).expiresAt
  return not expires or expires > tonumber(ARGV[3])
end

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 'id_taken' end
-- In the same step as the creation: keys revoked with their children cannot leave a child behind.
if ARGV[5] ~= '' and not is_live(ARGV[5]) then return 'parent_ended' end
local live = 0
for _, id in ipairs(redis.call('SMEMBERS', KEYS[3])) do
  if is_live(id) then live = live + 1 end
end
if live >= tonumber(ARGV[4]) then return 'too_many' end
if redis.call('SCARD', KEYS[4]) >= tonumber(ARGV[6]) then
  local ended, parents = {}, {}
  for _, id in ipairs(redis.call('SMEMBERS', KEYS[4])) do
    local stored = redis.call('HGET', KEYS[1], id)
    local parent = stored and cjson.decode(stored).parentId
    if parent then parents[parent] = true end
    if not is_live(id) then ended[#ended + 1] = id end
  end
  for _, id in ipairs(ended) do
    if not parents[id] then
      for _, at in ipairs({ 1, 2, 5 }) do redis.call('HDEL', KEYS[at], id) end
      for _, at in ipairs({ 3, 4 }) do redis.call('SREM', KEYS[at], id) end
    end
  end
  if redis.call('SCARD', KEYS[4]) >= tonumber(ARGV[6]) then return 'tenant_full' end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('SADD', KEYS[4], ARGV[1])
redis.call('SADD', KEYS[3], ARGV[1])
return 'created'
