-- Replaces what a declaration owns, in one step: two clients may apply the same one at once, and two declarations may claim one thing.
--
-- KEYS 1 declarations of the tenant (name -> JSON)
-- ARGV 1 name  2 revision that the client read, 0 for none  3 JSON of what it owns: ids with notes  4 lease in ms; 0: applying has ended
-- Returns the stored JSON | 'changed' | 'applying' | 'owned <id> <name of the owner>'

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local lease = tonumber(ARGV[4])
local held = redis.call('HGET', KEYS[1], ARGV[1])
local known = held and cjson.decode(held) or { revision = 0, applyingUntil = 0 }
if known.revision ~= tonumber(ARGV[2]) then return 'changed' end
if lease > 0 and known.applyingUntil > now then return 'applying' end

local owned = cjson.decode(ARGV[3])
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if all[i] ~= ARGV[1] then
    local others = cjson.decode(all[i + 1]).owned
    for id in pairs(owned) do
      if others[id] then return 'owned ' .. id .. ' ' .. all[i] end
    end
  end
end

local made = cjson.encode({
  revision = known.revision + 1,
  owned = owned,
  changedAt = now,
  applyingUntil = lease > 0 and now + lease or 0,
})
if lease == 0 and next(owned) == nil then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], made)
end
return made
