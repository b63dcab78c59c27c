-- Charges each call once. A lease is replaced by actual usage: at most the leased money, unless overruns are allowed, and tokens capped
-- only if some were leased. The lease of one call ends with it; from a shared lease the call takes its share. Usage without a lease, or
-- with one that held an estimate, is charged unchanged. The ledger row is added to the outbox in the same step.
--
-- KEYS as in the prelude.
-- ARGV 3 is 1 if a call may cost more than its lease; 4 number of scopes; per scope its name, where the first is `tenant` and the
--      second the day, whose name the script sets; then per call: id, microUsd, tokens, row (JSON; empty: only gives its share back),
--      indexes of its further scopes, separated by commas, id of a shared lease (empty = its own), micro-USD and tokens of its share,
--      and its tool; empty when the call says nothing about what others of the tool will cost.
-- Returns -1 when the tenant is unknown (nothing written), else {settled, [scope, "before after" of money and tokens]*}.
-- Continues prelude.lua.

local overrun, count = ARGV[3] == '1', integer(ARGV[4])
local names = {}
for i = 1, count do names[i] = ARGV[4 + i] end
names[2] = today
if call('HEXISTS', KEYS[1], 'tenant') == 0 then return -1 end
preload(names)
sweep(100)

-- Ids that must not be charged again, and those of leases; then, behind the calls, the marks of shared leases that have expired.
local first = 5 + count
local ids, lease_ids, asked, mark = {}, {}, {}, {}
for at = first, #ARGV, 9 do
  local n = #ids + 1
  ids[n] = ARGV[at]
  lease_ids[n] = ARGV[at + 5] ~= '' and ARGV[at + 5] or ARGV[at]
  asked[n] = ARGV[at]
end
for n, id in ipairs(ids) do
  local lease_id = lease_ids[n]
  if lease_id ~= id and not mark[lease_id] then
    mark[lease_id] = #asked + 1
    asked[#asked + 1] = lease_id .. '/expired'
  end
end
local leased = call('HMGET', KEYS[3], unpack(lease_ids))
local done0 = call('SMISMEMBER', KEYS[5], unpack(asked))
local done1 = call('SMISMEMBER', KEYS[6], unpack(asked))
local function is_done(n)
  return done0[n] == 1 or done1[n] == 1
end
local open, mine, settled = {}, {}, 0

for n, id in ipairs(ids) do
  local at = first + 9 * (n - 1)
  local micro, tokens, row = integer(ARGV[at + 1]), integer(ARGV[at + 2]), ARGV[at + 3]
  local tool = ARGV[at + 8]
  if not (mine[id] or expired[id] or is_done(n)) then
    mine[id] = true
    local lease_id = lease_ids[n]
    local shares = lease_id ~= id or is_shared(id)
    if open[lease_id] == nil then open[lease_id] = leased[n] and lease_of(leased[n]) end
    local lease = open[lease_id]
    if lease and lease[3] <= now and not expired[lease_id] then expire(lease_id, lease) end
    if expired[lease_id] or mark[lease_id] and is_done(mark[lease_id]) then
      -- The charge of the shared lease includes this call, which still has its row.
      if shares then
        charge(id, {}, 0, 0, 'settled', row)
        settled = settled + 1
      end
    elseif lease and (lease[1] > 0 or lease[2] > 0) then
      local held_micro, held_tokens = lease[1], lease[2]
      if shares then
        held_micro = math.min(integer(ARGV[at + 6]), held_micro)
        held_tokens = math.min(integer(ARGV[at + 7]), held_tokens)
      end
      take(lease_id, lease, held_micro, held_tokens)
      local is_estimated = lease[6] ~= nil
      if not (overrun or is_estimated or shares and held_micro == 0) then micro = math.min(micro, held_micro) end
      if held_tokens > 0 and not shares and not is_estimated then tokens = math.min(tokens, held_tokens) end
      if tool ~= '' and (is_estimated or tokens > 0 or micro > held_micro) then observe(tool, micro, tokens) end
      charge(id, lease[4], micro, tokens, 'settled', row)
      settled = settled + 1
    else
      local mixed = { names[1], names[2] }
      for _, i in ipairs(indexes(ARGV[at + 4])) do mixed[#mixed + 1] = names[i] end
      if tool ~= '' and (micro > 0 or tokens > 0) then observe(tool, micro, tokens) end
      charge(id, mixed, micro, tokens, 'settled', row)
      settled = settled + 1
    end
  end
end
flush()
return { settled, spending() }
