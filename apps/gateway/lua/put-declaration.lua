-- Replaces what a declaration owns, in one step: two clients may apply the same one at once, and two declarations may claim one thing.
-- Redis serves no other client meanwhile, so no JSON is decoded: the time depends on the ids that the change claims and releases, not on
-- the ids that the declarations of the tenant own.
--
-- KEYS 1 declarations of the tenant (name -> JSON)  2 their index (id -> name of its owner)
-- ARGV 1 name  2 JSON that the client read, '' for none  3 until when another client may apply it, by that JSON; 0 for none
--      4 new revision  5 JSON of what it owns: ids with notes; '' for nothing  6 lease in ms; 0: applying has ended
--      7 maximum number of declarations  8 number of claimed ids  9... claimed ids, then released ids
-- Returns {done, changed at, applying until} | {changed} | {applying} | {full} | {owned, id, name of the owner}

local name = ARGV[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local lease = tonumber(ARGV[6])
if (redis.call('HGET', KEYS[1], name) or '') ~= ARGV[2] then return { 'changed' } end
if lease > 0 and tonumber(ARGV[3]) > now then return { 'applying' } end
if ARGV[2] == '' and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[7]) then return { 'full' } end

local last_claimed = 8 + tonumber(ARGV[8])
-- Lua passes a limited number of arguments.
local CHUNK = 1000
for from = 9, last_claimed, CHUNK do
  local owners = redis.call('HMGET', KEYS[2], unpack(ARGV, from, math.min(from + CHUNK - 1, last_claimed)))
  for i, owner in ipairs(owners) do
    if owner and owner ~= name then return { 'owned', ARGV[from + i - 1], owner } end
  end
end
for from = 9, last_claimed, CHUNK do
  local entries = {}
  for i = from, math.min(from + CHUNK - 1, last_claimed) do
    entries[#entries + 1] = ARGV[i]
    entries[#entries + 1] = name
  end
  redis.call('HSET', KEYS[2], unpack(entries))
end
for from = last_claimed + 1, #ARGV, CHUNK do
  redis.call('HDEL', KEYS[2], unpack(ARGV, from, math.min(from + CHUNK - 1, #ARGV)))
end

local changed_at = string.format('%.0f', now)
local applying_until = string.format('%.0f', lease > 0 and now + lease or 0)
if lease == 0 and ARGV[5] == '' then
  redis.call('HDEL', KEYS[1], name)
else
  redis.call('HSET', KEYS[1], name, '{"revision":' .. ARGV[4] .. ',"changedAt":' .. changed_at .. ',"applyingUntil":' .. applying_until
    .. ',"owned":' .. (ARGV[5] == '' and '{}' or ARGV[5]) .. '}')
end
return { 'done', changed_at, applying_until }
