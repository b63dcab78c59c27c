-- Whether there is room for one more result. ARGV: 1 quota in bytes. @returns 1 or 0
-- Continues kept-results.lua.

if keyed_total >= tonumber(ARGV[1]) then return 0 end
return 1
