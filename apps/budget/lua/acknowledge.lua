-- Removes outbox entries that are in the ledger and subtracts their rows from the count. May be repeated and run by two replicas at
-- once: only the run that deletes an entry counts it.
--
-- KEYS 1 outbox stream, 2 scopes hash. ARGV entry ids and their numbers of rows, in pairs.

local rows = 0
for at = 1, #ARGV, 2 do
  if redis.call('XDEL', KEYS[1], ARGV[at]) == 1 then rows = rows + tonumber(ARGV[at + 1]) end
end
if rows > 0 then redis.call('HINCRBY', KEYS[2], '~outbox', string.format('%d', -rows)) end
return rows
