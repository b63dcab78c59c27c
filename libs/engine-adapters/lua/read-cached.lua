-- A cached result, how long it will still be kept, and the version of its scope, read at one instant.
-- KEYS[1] result, KEYS[2] version of the scope.
-- @returns {text or nil, ms left, version; empty when no call with effects has set one lately}

return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) or ''}
