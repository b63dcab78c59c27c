-- Stores a version of a toolset if it follows the latest one, in one step: two administrators may write at the same time. The
-- number of the latest version outlives the toolset, so that no number is ever used for two different versions.
--
-- KEYS 1 toolsets hash (id -> JSON of the latest version)  2 versions hash of this toolset (number -> JSON; latest -> number)
-- ARGV 1 id  2 number  3 JSON  4 versions kept  5 bytes of them
-- Returns 1 stored | 0 not.

local number = tonumber(ARGV[2])
if tonumber(redis.call('HGET', KEYS[2], 'latest') or '0') ~= number - 1 then return 0 end
redis.call('HSET', KEYS[2], 'latest', ARGV[2], ARGV[2], ARGV[3])
local bytes = 0
for kept = number, number - tonumber(ARGV[4]), -1 do
  local field = string.format('%d', kept)
  bytes = bytes + redis.call('HSTRLEN', KEYS[2], field)
  if kept < number and (bytes > tonumber(ARGV[5]) or kept == number - tonumber(ARGV[4])) then redis.call('HDEL', KEYS[2], field) end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
