-- Charges each call once. A lease is replaced by actual usage: at most the leased money, unless overruns are allowed, and tokens capped
-- only if some were leased. Usage without a lease is charged unchanged. The ledger row is added to the outbox in the same step.
--
-- KEYS as in the prelude.
-- ARGV 3 is 1 if a call may cost more than its lease; 4 number of scopes; per scope its name, where the first is `tenant` and the
--      second the day, whose name the script sets; then per call: id, microUsd, tokens, row (JSON), indexes of its request, agent and task scope (0 = none).
-- Returns -1 when the tenant is unknown (nothing written), else {settled, [scope, "before after" of money and tokens]*}.
-- Continues prelude.lua.

local overrun, count = ARGV[3] == '1', integer(ARGV[4])
local names = {}
for i = 1, count do names[i] = ARGV[4 + i] end
names[2] = today
if call('HEXISTS', KEYS[1], 'tenant') == 0 then return -1 end
preload(names)
sweep(100)

local first = 5 + count
local ids = {}
for at = first, #ARGV, 7 do ids[#ids + 1] = ARGV[at] end
local leased = call('HMGET', KEYS[3], unpack(ids))
local done0 = call('SMISMEMBER', KEYS[5], unpack(ids))
local done1 = call('SMISMEMBER', KEYS[6], unpack(ids))
local mine, settled = {}, 0

for n, id in ipairs(ids) do
  local at = first + 7 * (n - 1)
  local micro, tokens = integer(ARGV[at + 1]), integer(ARGV[at + 2])
  if not (mine[id] or expired[id] or done0[n] == 1 or done1[n] == 1) then
    mine[id] = true
    local lease = leased[n] and lease_of(leased[n])
    if lease and lease[3] <= now then
      expire(id, lease)
    elseif lease then
      drop(id, lease)
      local t = tokens
      if lease[2] > 0 then t = math.min(tokens, lease[2]) end
      local m = micro
      if not overrun then m = math.min(micro, lease[1]) end
      charge(id, lease[4], m, t, 'settled', ARGV[at + 3])
      settled = settled + 1
    else
      local mixed = { names[1], names[2] }
      for k = 4, 6 do
        local i = tonumber(ARGV[at + k])
        if i > 0 then mixed[#mixed + 1] = names[i] end
      end
      charge(id, mixed, micro, tokens, 'settled', ARGV[at + 3])
      settled = settled + 1
    end
  end
end
flush()
return { settled, spending() }
