-- Stores a new API key unless its id is taken, its client has too many live keys, or the key that makes it is not live.
-- KEYS: 1 keys, 2 revoked, 3 ids of the client.
-- ARGV: 1 id, 2 record as JSON, 3 now in ms, 4 most live keys of a client, 5 id of the key that makes it, or ''.
-- @returns 'created', 'id_taken', 'too_many' or 'parent_ended'

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
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('SADD', KEYS[3], ARGV[1])
return 'created'
