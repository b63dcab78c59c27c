-- Leases money for many calls of one tenant. Check and write are one script: with a read followed by a write, two gateways that
-- reserve at the same time could both pass the limit.
--
-- KEYS as in the prelude.
-- ARGV 3 outbox cap; 4 number of scopes; per scope: name, limit in micro-USD, limit in tokens (-1 = none); the first is
--      `tenant` and the second the day, whose name the script sets; then per call: id, microUsd, tokens, lease ms, the end
--      of its lease record (1E and name of each further scope, 1F, row), and the indexes of its request, agent and task
--      scope, separated by commas, 0 for none; empty when it has none of them.
-- Expired leases are not swept here. Charging them moves money from held to spent, which changes no decision.
-- Returns -1 when the tenant is unknown (nothing written), else per call 1, or {code, scope index, used} with code
--      2 money, 3 tokens, 4 outbox full, 5 already charged.
-- Continues prelude.lua.

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
for at = first, #ARGV, 6 do ids[#ids + 1] = ARGV[at] end
local leased = call('HMGET', KEYS[3], unpack(ids))
local done0 = call('SMISMEMBER', KEYS[5], unpack(ids))
local done1 = call('SMISMEMBER', KEYS[6], unpack(ids))
local waiting = tonumber(head[1] or '0')
local tenant, day = state['tenant'], state[today]
local mine, reply = {}, {}

local function refuses(i, micro, tokens)
  local c, limit = state[names[i]], limit_m[i]
  local used = c[1] + c[2]
  if limit >= 0 and (used >= limit or used + micro > limit) then return { 2, i, used } end
  limit = limit_t[i]
  used = c[3] + c[4]
  if limit >= 0 and (used >= limit or used + tokens > limit) then return { 3, i, used } end
end

local function hold(name, c, micro, tokens)
  c[2] = c[2] + micro
  c[4] = c[4] + tokens
  touch(name, c)
end

for n, id in ipairs(ids) do
  local at = first + 6 * (n - 1)
  local micro, tokens, lease_ms = integer(ARGV[at + 1]), integer(ARGV[at + 2]), integer(ARGV[at + 3])
  local r, a, t = 0, 0, 0
  if ARGV[at + 5] ~= '' then
    r, a, t = string.match(ARGV[at + 5], '^(%d+),(%d+),(%d+)$')
    r, a, t = tonumber(r), tonumber(a), tonumber(t)
  end
  local answer
  if done0[n] == 1 or done1[n] == 1 then
    answer = { 5, 0, 0 }
  elseif leased[n] then
    if lease_of(leased[n])[3] <= now then answer = { 5, 0, 0 } else answer = 1 end
  elseif mine[id] then
    answer = 1
  elseif waiting >= cap then
    answer = { 4, 0, waiting }
  else
    answer = (r > 0 and refuses(r, micro, tokens)) or (a > 0 and refuses(a, micro, tokens))
      or (t > 0 and refuses(t, micro, tokens)) or refuses(2, micro, tokens) or refuses(1, micro, tokens)
    if not answer then
      answer = 1
      if micro > 0 or tokens > 0 then
        hold('tenant', tenant, micro, tokens)
        hold(today, day, micro, tokens)
        if r > 0 then hold(names[r], state[names[r]], micro, tokens) end
        if a > 0 then hold(names[a], state[names[a]], micro, tokens) end
        if t > 0 then hold(names[t], state[names[t]], micro, tokens) end
        local ends = format('%d', now + lease_ms)
        local k = #lease_add
        lease_add[k + 1] = id
        lease_add[k + 2] = ARGV[at + 1] .. '\31' .. ARGV[at + 2] .. '\31' .. ends .. '\31tenant\30' .. today .. ARGV[at + 4]
        expiry_add[k + 1] = ends
        expiry_add[k + 2] = id
        mine[id] = true
      end
    end
  end
  reply[n] = answer
end
flush()
return reply
