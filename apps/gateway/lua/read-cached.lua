-- A cached result and how long it will still be kept, read at one instant.
-- KEYS[1] result.
-- @returns {text, ms left}, or nil

local text = redis.call('GET', KEYS[1])
if not text then return nil end
return {text, redis.call('PTTL', KEYS[1])}
