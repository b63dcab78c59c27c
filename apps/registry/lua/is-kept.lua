-- Start of the scripts that look at registrations: `owner`, and whether the registration of a stamp is the kept one. Stamps are
-- compared, not registrations, because those may hold whole documents. One kept by an earlier version has none. KEYS as in
-- put.lua, ARGV 1 owner.

local owner = ARGV[1]
local function is_kept(stamp)
  if redis.call('HEXISTS', KEYS[9], owner) == 0 then return false end
  local known = redis.call('HGET', KEYS[2], '~' .. owner)
  return not known or known == stamp
end
