-- Forgets a ref. ARGV: 1 ref.
-- Continues kept-results.lua.

drop(ARGV[1])
return total
