-- Releases leases in full. An expired lease is charged instead, because a late release cannot be distinguished from a crash.
--
-- KEYS as in the prelude. ARGV 3.. call ids. Returns how many leases were released.
-- Continues prelude.lua.

local ids = {}
for at = 3, #ARGV do ids[#ids + 1] = ARGV[at] end
local leased = call('HMGET', KEYS[3], unpack(ids))
local mine, released = {}, 0
for n, id in ipairs(ids) do
  if leased[n] and not mine[id] then
    mine[id] = true
    local lease = lease_of(leased[n])
    if lease[3] <= now then
      expire(id, lease)
    else
      take(id, lease, lease[1], lease[2])
      released = released + 1
    end
  end
end
flush()
return released
