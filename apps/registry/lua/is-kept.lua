-- Prelude of put.lua and remove.lua: tells whether the registration with a stamp is the stored one. Stamps are compared because a
-- registration may contain a whole document.
-- KEYS as in put.lua, ARGV 1 owner.

local owner = ARGV[1]
local function is_kept(stamp)
  return redis.call('HGET', KEYS[2], '~' .. owner) == stamp
end
