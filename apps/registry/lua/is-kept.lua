-- Prelude of put.lua and remove.lua: tells whether the registration with a stamp is the stored one. Stamps are compared because a
-- registration may contain a whole document. A registration stored by an earlier version has no stamp and matches any.
-- KEYS as in put.lua, ARGV 1 owner.

local owner = ARGV[1]
local function is_kept(stamp)
  if redis.call('HEXISTS', KEYS[9], owner) == 0 then return false end
  local known = redis.call('HGET', KEYS[2], '~' .. owner)
  return not known or known == stamp
end
