-- Stores a new API key unless its id is taken or its client has too many live keys.
-- KEYS: 1 keys, 2 revoked, 3 ids of the client. ARGV: 1 id, 2 record as JSON, 3 now in ms, 4 most live keys of a client.
-- @returns 'created', 'id_taken' or 'too_many'

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 'id_taken' end
local live = 0
for _, id in ipairs(redis.call('SMEMBERS', KEYS[3])) do
  local stored = redis.call('HGET', KEYS[1], id)
  if stored and redis.call('HEXISTS', KEYS[2], id) == 0 then
    local expires = cjson.decode(stored).expiresAt
    if not expires or expires > tonumber(ARGV[3]) then live = live + 1 end
  end
end
if live >= tonumber(ARGV[4]) then return 'too_many' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('SADD', KEYS[3], ARGV[1])
return 'created'
