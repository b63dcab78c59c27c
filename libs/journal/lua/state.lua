-- The stored state of a call.
-- KEYS[1] call.
-- @returns the state, or false for a call without a record
return redis.call('HGET', KEYS[1], 'state')
