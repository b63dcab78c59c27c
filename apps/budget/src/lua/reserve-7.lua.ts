import { PRELUDE } from './prelude.lua.js';

/**
 * Leases money for many calls of one tenant at once: two gateways may reserve at the same time, so check and write are one
 * script; a read followed by a write would let both pass the limit.
 *
 * KEYS as in the prelude.
 * ARGV 3 outbox cap; 4 number of scopes; per scope: name, limit in micro-USD, limit in tokens (-1 = none), where the first is
 *      `tenant` and the second the day (its name is made here); then per call: id, microUsd, tokens, lease ms, row (JSON),
 *      and the indexes of its request, agent and task scope (0 = none).
 * Returns -1 when the tenant is unknown (nothing written), else per call 1, or {code, scope index, used} with code
 *      2 money, 3 tokens, 4 outbox full, 5 already charged.
 */
export const RESERVE = String.raw`${PRELUDE}
local cap, count = integer(ARGV[3]), integer(ARGV[4])
local names, limit_m, limit_t = {}, {}, {}
for i = 1, count do
  local at = 2 + 3 * i
  names[i], limit_m[i], limit_t[i] = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
end
names[2] = today

local head = redis.call('HMGET', KEYS[1], '~outbox', unpack(names))
if not head[2] then return -1 end
for i, name in ipairs(names) do state[name] = parse(head[i + 1]) end
sweep(100)

local first = 5 + 3 * count
local ids = {}
for at = first, #ARGV, 8 do ids[#ids + 1] = ARGV[at] end
local leased = redis.call('HMGET', KEYS[3], unpack(ids))
local done0 = redis.call('SMISMEMBER', KEYS[5], unpack(ids))
local done1 = redis.call('SMISMEMBER', KEYS[6], unpack(ids))
local waiting = tonumber(head[1] or '0')
local mine = {}

local reply = {}
for n, id in ipairs(ids) do
  local at = first + 8 * (n - 1)
  local micro, tokens, lease_ms = integer(ARGV[at + 1]), integer(ARGV[at + 2]), integer(ARGV[at + 3])
  local order = { tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7]), 2, 1 }
  local answer = 1
  local open = leased[n] and not expired[id] or mine[id]
  if open and leased[n] and lease_of(leased[n])[3] <= now then open = false; answer = { 5, 0, 0 } end
  if expired[id] or done0[n] == 1 or done1[n] == 1 then
    answer = { 5, 0, 0 }
  elseif not open and answer == 1 then
    if waiting >= cap then answer = { 4, 0, waiting } end
    for k = 1, 5 do
      local i = order[k]
      if answer == 1 and i > 0 then
        local c = state[names[i]]
        local used = c[1] + c[2]
        if limit_m[i] >= 0 and (used >= limit_m[i] or used + micro > limit_m[i]) then
          answer = { 2, i, used }
        else
          used = c[3] + c[4]
          if limit_t[i] >= 0 and (used >= limit_t[i] or used + tokens > limit_t[i]) then answer = { 3, i, used } end
        end
      end
    end
    if answer == 1 and (micro > 0 or tokens > 0) then
      local held = {}
      for k = 1, 5 do
        local i = order[k]
        if i > 0 then
          local c = state[names[i]]
          c[2] = c[2] + micro
          c[4] = c[4] + tokens
          touch(names[i], c)
          held[#held + 1] = names[i]
        end
      end
      lease_add[#lease_add + 1] = id
      lease_add[#lease_add + 1] = string.format('%d\31%d\31%d\31%s\31%s', micro, tokens, now + lease_ms,
        table.concat(held, '\30'), ARGV[at + 4])
      expiry_add[#expiry_add + 1] = string.format('%d', now + lease_ms)
      expiry_add[#expiry_add + 1] = id
      mine[id] = true
    end
  end
  reply[n] = answer
end
flush()
return reply
`;
