-- Leases money for many calls of one tenant: to each call its own lease, or a shared lease from which a gateway admits calls itself.
-- Check and write are one script: with a read followed by a write, two gateways that reserve at the same time could both pass the limit.
--
-- KEYS as in the prelude.
-- ARGV 3 outbox cap; 4 number of scopes; per scope: name, limit in micro-USD, limit in tokens (-1 = none); the first is
--      `tenant` and the second the day, whose name the script sets; then per call: id, microUsd, tokens, lease ms, the end
--      of its lease record (1E and name of each further scope, 1F, row), the indexes of its further scopes in the order in
--      which they are checked, separated by commas; the least micro-USD of a shared lease, empty for
--      the lease of one call; its tool; and in what a limit is named that the tool may report (0 nothing, 1 money, 2 tokens, 3 both).
--      A shared lease gets what it asks for, but at most a hundredth of what is left of any limit.
-- A call whose tool may report what is limited holds twice the largest amount that the tool was charged. It is admitted while anything is
-- left, so that calls exceed a limit by the last of them. As many of them run at once as charges of the tool are known, at least one: of
-- so many, one or none is expected to exceed them all. After `PLAIN_AFTER` charges of nothing the tool is taken for one that reports nothing.
-- Expired leases are not swept here. Charging them moves money from held to spent, which changes no decision.
-- Returns -1 when the tenant is unknown (nothing written), else per call 1, 2 when it holds an estimate, 3 when its tool reports
--      nothing that is limited, or {code, scope index, used, part of it in shared leases and estimates} with code 2 money, 3 tokens,
--      4 outbox full, 5 already charged, 6 too little left for a shared lease, 7 other calls of the tool run first; per shared
--      lease {1, micro-USD, tokens, 1 when money is limited, 1 when tokens are}.
-- Continues prelude.lua.

local PLAIN_AFTER = 8

local cap, count = integer(ARGV[3]), integer(ARGV[4])
local names, limit_m, limit_t = {}, {}, {}
for i = 1, count do
  local at = 2 + 3 * i
  names[i], limit_m[i], limit_t[i] = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
end
names[2] = today

local head = call('HMGET', KEYS[1], '~outbox', unpack(names))
if not head[2] then return -1 end
for i, name in ipairs(names) do state[name] = parse(head[i + 1]) end

local first = 5 + 3 * count
local ids = {}
for at = first, #ARGV, 9 do ids[#ids + 1] = ARGV[at] end
local leased = call('HMGET', KEYS[3], unpack(ids))
local done0 = call('SMISMEMBER', KEYS[5], unpack(ids))
local done1 = call('SMISMEMBER', KEYS[6], unpack(ids))
local waiting = tonumber(head[1] or '0')
local tenant, day = state['tenant'], state[today]
local mine, reply = {}, {}

-- Amounts in shared leases, for refusals only: most runs refuse nothing and do not read them.
local in_shared = {}
local function shared_amount(field, added)
  in_shared[field] = in_shared[field] or tonumber(call('HGET', KEYS[1], field) or '0')
  return math.max(0, in_shared[field] + (added or 0))
end

local function refuses(i, micro, tokens)
  local name = names[i]
  local c, limit = state[name], limit_m[i]
  local used = c[1] + c[2]
  if limit >= 0 and (used >= limit or used + micro > limit) then
    return { 2, i, used, shared_amount('~shared:' .. name, shared_micro[name]) }
  end
  limit = limit_t[i]
  used = c[3] + c[4]
  if limit >= 0 and (used >= limit or used + tokens > limit) then
    return { 3, i, used, shared_amount('~shared_tokens:' .. name, shared_tokens[name]) }
  end
end

-- The most that one shared lease may take of the limits of its scopes, in micro-USD and tokens; nil where none is limited.
local function share(further)
  local micro, tokens
  local function narrow(i)
    local c = state[names[i]]
    if limit_m[i] >= 0 then
      micro = math.min(micro or limit_m[i], math.max(0, math.floor((limit_m[i] - c[1] - c[2]) / 100)))
    end
    if limit_t[i] >= 0 then
      tokens = math.min(tokens or limit_t[i], math.max(0, math.floor((limit_t[i] - c[3] - c[4]) / 100)))
    end
  end
  narrow(1)
  narrow(2)
  for _, i in ipairs(further) do narrow(i) end
  return micro, tokens
end

local function hold(name, c, micro, tokens, ends_soon)
  c[2] = c[2] + micro
  c[4] = c[4] + tokens
  touch(name, c)
  if ends_soon then add_shared(name, micro, tokens) end
end

for n, id in ipairs(ids) do
  local at = first + 9 * (n - 1)
  local micro, tokens, lease_ms = integer(ARGV[at + 1]), integer(ARGV[at + 2]), integer(ARGV[at + 3])
  local further = indexes(ARGV[at + 5])
  local least = tonumber(ARGV[at + 6])
  local most_micro, most_tokens
  if least then most_micro, most_tokens = share(further) end
  local function granted(m, k)
    return { 1, m, k, most_micro and 1 or 0, most_tokens and 1 or 0 }
  end
  local answer, usage, seen, most_charged, most_reported
  local units = tonumber(ARGV[at + 8])
  if units > 0 then
    usage = usage_of(ARGV[at + 7])
    seen = usage.seen + usage.seen0
    most_charged = units % 2 == 1 and math.max(usage.micro, usage.micro0) or 0
    most_reported = units >= 2 and math.max(usage.tokens, usage.tokens0) or 0
  end
  local is_plain = units > 0 and seen >= PLAIN_AFTER and most_charged <= micro and most_reported == 0
  local is_estimated = units > 0 and not is_plain
  local admitted = is_estimated and 2 or is_plain and 3 or 1
  if done0[n] == 1 or done1[n] == 1 then
    answer = { 5, 0, 0 }
  elseif leased[n] then
    local lease = lease_of(leased[n])
    if lease[3] <= now then
      answer = { 5, 0, 0 }
    else
      answer = least and granted(lease[1], lease[2]) or lease[6] and 2 or admitted
    end
  elseif mine[id] then
    answer = mine[id]
  elseif waiting >= cap then
    answer = { 4, 0, waiting }
  else
    if least then
      -- Where a limit applies, even free calls need something left, as their tools may report a cost or tokens.
      if most_micro then micro = math.min(math.max(micro, 1), most_micro) end
      tokens = most_tokens and math.min(math.max(tokens, 1), most_tokens) or 0
      if micro < least or most_micro == 0 or most_tokens == 0 then answer = { 6, 0, 0 } end
    end
    for _, i in ipairs(further) do answer = answer or refuses(i, micro, tokens) end
    answer = answer or refuses(2, micro, tokens) or refuses(1, micro, tokens)
    if not answer and is_estimated and usage.running >= math.max(1, seen) then answer = { 7, 0, 0 } end
    if not answer then
      answer = least and granted(micro, tokens) or admitted
      local ending = ARGV[at + 4]
      if is_estimated then
        local charged = math.max(micro, most_charged)
        ending = string.gsub(ending, '\31{', format('\31{"estimated":"%d %d",', charged, most_reported), 1)
        -- A lease holds something, also while nothing is known.
        if units % 2 == 1 then micro = math.max(micro, 2 * most_charged, 1) end
        if units >= 2 then tokens = math.max(2 * most_reported, 1) end
        usage.running, usage.ends, usage.dirty = usage.running + 1, math.max(usage.ends, now + lease_ms), true
      end
      if micro > 0 or tokens > 0 then
        local ends_soon = is_estimated or is_shared(id)
        hold('tenant', tenant, micro, tokens, ends_soon)
        hold(today, day, micro, tokens, ends_soon)
        for _, i in ipairs(further) do hold(names[i], state[names[i]], micro, tokens, ends_soon) end
        local ends = format('%d', now + lease_ms)
        local k = #lease_add
        lease_add[k + 1] = id
        lease_add[k + 2] = format('%d\31%d\31', micro, tokens) .. ends .. '\31tenant\30' .. today .. ending
        expiry_add[k + 1] = ends
        expiry_add[k + 2] = id
        mine[id] = answer
      end
    end
  end
  reply[n] = answer
end
flush()
return reply
