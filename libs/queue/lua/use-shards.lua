-- Notes that a process uses a number of shards, see src/shard-numbers.ts. Returns the numbers in use, in the order in which they came into
-- use. Numbers that no process has noted for a while are forgotten when one other number is left: while several are in use, their
-- processes have to agree on the oldest.
--
-- KEYS 1: numbers in use; fields are numbers, values `<order>:<last use in ms>`. 2: BullMQ's count of the jobs that were added.
-- ARGV 1: number, 2: how long a number stays in use, in ms.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local entries = redis.call('HGETALL', KEYS[1])
-- A release that knows no shards used the queue, and may use it still.
if #entries == 0 and ARGV[1] ~= '1' and redis.call('EXISTS', KEYS[2]) == 1 then
  entries = {'1', '1:' .. now}
  redis.call('HSET', KEYS[1], unpack(entries))
end
local used, unused, newest, own = {}, {}, 0, nil
for i = 1, #entries, 2 do
  local order, at = string.match(entries[i + 1], '^(%d+):(%d+)$')
  local entry = {number = tonumber(entries[i]), order = tonumber(order)}
  newest = math.max(newest, entry.order)
  if entries[i] == ARGV[1] then own = entry end
  local isUsed = own == entry or now - tonumber(at) <= tonumber(ARGV[2])
  table.insert(isUsed and used or unused, entry)
end
if not own then
  own = {number = tonumber(ARGV[1]), order = newest + 1}
  table.insert(used, own)
end
for _, entry in ipairs(unused) do
  if #used == 1 then redis.call('HDEL', KEYS[1], entry.number) else table.insert(used, entry) end
end
redis.call('HSET', KEYS[1], own.number, own.order .. ':' .. now)
table.sort(used, function(a, b) return a.order < b.order end)
local numbers = {}
for i, entry in ipairs(used) do numbers[i] = entry.number end
return numbers
