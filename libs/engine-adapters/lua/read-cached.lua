-- A cached result, how long it will still be kept, and the version of its scope, read at one instant. A lookup gives a scope its first
-- version, which tells calls with effects that its results are read.
-- KEYS[1] result, KEYS[2] version of the scope, KEYS[3] mark of a scope that was not read (drop-cached.lua). ARGV: 1 life of a version in
-- ms, 2 ms of life left below which it is renewed.
-- @returns {text or nil, ms left, version}; no version while calls with effects may rely on the mark: nothing may be cached then

local version = redis.call('GET', KEYS[2])
if not version then
  local time = redis.call('TIME')
  version = time[1] .. '.' .. time[2]
  redis.call('SET', KEYS[2], version, 'PX', ARGV[1])
elseif redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[2], ARGV[1])
end
if redis.call('EXISTS', KEYS[3]) == 1 then return {false, 0, false} end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), version}
