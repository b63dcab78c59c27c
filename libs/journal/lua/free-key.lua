-- Frees a key if this call holds it. KEYS[1] key. ARGV: 1 call id.

local held = redis.call('GET', KEYS[1])
if held and string.match(held, '^(%S+)') == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
