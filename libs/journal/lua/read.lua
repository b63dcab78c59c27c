-- The record as it is now.
-- KEYS[1] call.
-- @returns {now, state, fields and values…}, or {now} without a record
-- Continues prelude.lua.

local record = load()
if not record then return {string.format('%d', now)} end
local reply = {string.format('%d', now), seen(record)}
for _, value in ipairs(redis.call('HGETALL', KEYS[1])) do reply[#reply + 1] = value end
return reply
