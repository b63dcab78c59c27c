-- Takes the lease of a session. A holder that already has it may take it again.
-- KEYS: lock, variables. ARGV: holder, lease in ms.
-- Returns {0} while another holder has the lease, else {1, variables}.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return {0} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, redis.call('GET', KEYS[2])}
