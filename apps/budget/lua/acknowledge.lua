-- Removes outbox entries that reached the ledger and counts their rows off. Safe to repeat and to run from two replicas:
-- an entry is counted once, when it is there.
--
-- KEYS 1 outbox stream, 2 scopes hash. ARGV entry ids and their numbers of rows, in pairs.

local rows = 0
for at = 1, #ARGV, 2 do
  if redis.call('XDEL', KEYS[1], ARGV[at]) == 1 then rows = rows + tonumber(ARGV[at + 1]) end
end
if rows > 0 then redis.call('HINCRBY', KEYS[2], '~outbox', string.format('%d', -rows)) end
return rows
