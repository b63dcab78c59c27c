-- Prelude of reserve.lua, settle.lua, release.lua and sweep.lua.
--
-- KEYS (all under one hash tag `{b:<tenant>}`, so that they run on Redis Cluster)
--   1 scopes  hash   scope name -> "spentMicroUsd heldMicroUsd spentTokens heldTokens lastUseMs"; `~outbox` -> rows in the outbox;
--                    `~shared:<scope name>` and `~shared_tokens:<scope name>` -> the part of the held amounts in shared leases and
--                    estimates; `~usage:<tool>` -> see `usage_of`
--   2 seen    zset   scope name -> a time not later than its last use, ms; finds unused scopes
--   3 leases  hash   lease id -> microUsd 1F tokens 1F expiresAt 1F scope names joined by 1E 1F row (JSON). The id is that of a call, or
--                    `lease:<id>` of a shared lease, from which the settlements of many calls take their shares. The row of a lease
--                    that holds an estimate begins with `{"estimated":"<microUsd> <tokens>",`, the amounts that are charged if it expires
--   4 expiry  zset   lease id -> expiresAt, ms
--   5 done0, 6 done1  sets of charged call ids: of even and odd periods of ARGV[1]; each expires before it is used again. A shared
--                    lease is there once its unused rest is returned or it has expired; `lease:<id>/expired` tells the latter
--   7 outbox  stream of [ "kind microUsd tokens at", row (JSON) ]*
-- ARGV 1 id memory ms, 2 scope TTL ms, 3.. by script
--
-- The scripts use the server's time only, read and check everything before the first write, because Redis does not roll back, and
-- format integers with %d, because tostring(-0) is "-0".

local call, format, tonumber, ipairs = redis.call, string.format, tonumber, ipairs
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local memory = tonumber(ARGV[1])
local period = math.floor(now / memory)
local today = format('day:%d', math.floor(now / 86400000))

local state, dirty = {}, {}
local lease_add, expiry_add, gone, done, out = {}, {}, {}, {}, {}
local expired = {}
local changed, shared_micro, shared_tokens = {}, {}, {}

local function parse(value)
  if not value then return { 0, 0, 0, 0, 0, 0, now, fresh = true } end
  local s, h, ts, th, used = string.match(value, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not s then error('BUDGET_STATE counters are not integers') end
  s, ts = tonumber(s), tonumber(ts)
  return { s, tonumber(h), ts, tonumber(th), s, ts, tonumber(used) }
end

local function integer(text)
  local n = tonumber(text)
  if not n or n < 0 or n % 1 ~= 0 or n > 9007199254740991 then
    error('BUDGET_ARGUMENT not a non-negative integer: ' .. tostring(text))
  end
  return n
end

local function scope(name)
  local c = state[name]
  if not c then
    c = parse(call('HGET', KEYS[1], name))
    state[name] = c
  end
  return c
end

local function touch(name, c)
  if not c.dirty then
    c.dirty = true
    dirty[#dirty + 1] = name
  end
end

local function preload(names)
  local values = call('HMGET', KEYS[1], unpack(names))
  for i, name in ipairs(names) do state[name] = parse(values[i]) end
end

-- The scopes of a call besides tenant and day: positions, separated by commas.
local function indexes(text)
  local list = {}
  for position in string.gmatch(text, '%d+') do list[#list + 1] = tonumber(position) end
  return list
end

local function lease_of(value)
  local m, t, e, names, row = string.match(value, '^(%d+)\31(%d+)\31(%d+)\31([^\31]*)\31(.*)$')
  if not m then error('BUDGET_STATE unreadable lease') end
  local list = {}
  for name in string.gmatch(names, '[^\30]+') do list[#list + 1] = name end
  local em, et = string.match(row, '^{"estimated":"(%d+) (%d+)",')
  return { tonumber(m), tonumber(t), tonumber(e), list, row, tonumber(em), tonumber(et) }
end

-- What calls of a tool were charged in this period and the one before, as far as it was not known before they ran: how many were seen,
-- the largest amounts, how many calls hold an estimate, and the end of the last of their leases.
local usages = {}
local function usage_of(tool)
  local known = usages[tool]
  if known then return known end
  local value = call('HGET', KEYS[1], '~usage:' .. tool) or ''
  local n = {}
  for number in string.gmatch(value, '%d+') do n[#n + 1] = tonumber(number) end
  local u = { seen = 0, micro = 0, tokens = 0, seen0 = 0, micro0 = 0, tokens0 = 0, running = n[8] or 0, ends = n[9] or 0 }
  if n[1] == period then
    u.seen, u.micro, u.tokens, u.seen0, u.micro0, u.tokens0 = n[2], n[3], n[4], n[5], n[6], n[7]
  elseif n[1] == period - 1 then
    u.seen0, u.micro0, u.tokens0 = n[2], n[3], n[4]
  end
  -- A lease that was lost with an older copy of the store is never taken.
  if u.ends + 60000 < now then u.running = 0 end
  usages[tool] = u
  return u
end

local function observe(tool, micro, tokens)
  local u = usage_of(tool)
  u.seen, u.micro, u.tokens, u.dirty = u.seen + 1, math.max(u.micro, micro), math.max(u.tokens, tokens), true
end

local function is_shared(id)
  return string.sub(id, 1, 6) == 'lease:'
end

local function add_shared(name, micro, tokens)
  shared_micro[name] = (shared_micro[name] or 0) + micro
  shared_tokens[name] = (shared_tokens[name] or 0) + tokens
end

-- Frees a part of what a lease holds. A lease that holds nothing any more is removed.
local function take(id, lease, micro, tokens)
  for _, name in ipairs(lease[4]) do
    local c = scope(name)
    c[2] = math.max(0, c[2] - micro)
    c[4] = math.max(0, c[4] - tokens)
    touch(name, c)
    if is_shared(id) or lease[6] then add_shared(name, -micro, -tokens) end
  end
  lease[1], lease[2] = lease[1] - micro, lease[2] - tokens
  if lease[1] <= 0 and lease[2] <= 0 then
    if lease[6] then
      local u = usage_of(cjson.decode(lease[5]).tool_name)
      u.running, u.dirty = math.max(0, u.running - 1), true
    end
    changed[id] = nil
    gone[#gone + 1] = id
  else
    changed[id] = lease
  end
end

local function charge(id, names, micro, tokens, kind, row)
  for _, name in ipairs(names) do
    local c = scope(name)
    c[1] = c[1] + micro
    c[3] = c[3] + tokens
    touch(name, c)
  end
  done[#done + 1] = id
  if row == '' then return end
  out[#out + 1] = format('%s %d %d %d', kind, micro, tokens, now)
  out[#out + 1] = row
end

local function expire(id, lease)
  local micro, tokens = lease[6] or lease[1], lease[7] or lease[2]
  take(id, lease, lease[1], lease[2])
  charge(id, lease[4], micro, tokens, 'expired', lease[5])
  expired[id] = true
  if is_shared(id) then done[#done + 1] = id .. '/expired' end
end

local function sweep(most)
  local overdue = call('ZRANGEBYSCORE', KEYS[4], '-inf', now, 'LIMIT', 0, most)
  if #overdue == 0 then return 0 end
  local values = call('HMGET', KEYS[3], unpack(overdue))
  for i, id in ipairs(overdue) do
    if values[i] then expire(id, lease_of(values[i])) else gone[#gone + 1] = id end
  end
  return #overdue
end

local function flush()
  if #dirty > 0 then
    local fields, seen = {}, {}
    for i, name in ipairs(dirty) do
      local c = state[name]
      fields[2 * i - 1] = name
      fields[2 * i] = format('%d %d %d %d %d', c[1], c[2], c[3], c[4], now)
      if c.fresh and name ~= 'tenant' then
        seen[#seen + 1] = now
        seen[#seen + 1] = name
      end
    end
    call('HSET', KEYS[1], unpack(fields))
    if #seen > 0 then call('ZADD', KEYS[2], unpack(seen)) end
  end
  if #gone > 0 then
    call('HDEL', KEYS[3], unpack(gone))
    call('ZREM', KEYS[4], unpack(gone))
  end
  if #lease_add > 0 then
    call('HSET', KEYS[3], unpack(lease_add))
    call('ZADD', KEYS[4], unpack(expiry_add))
  end
  for id, lease in pairs(changed) do
    local head = format('%d\31%d\31%d\31', lease[1], lease[2], lease[3])
    call('HSET', KEYS[3], id, head .. table.concat(lease[4], '\30') .. '\31' .. lease[5])
  end
  for name, micro in pairs(shared_micro) do
    if micro ~= 0 then call('HINCRBY', KEYS[1], '~shared:' .. name, format('%d', micro)) end
    local tokens = shared_tokens[name]
    if tokens ~= 0 then call('HINCRBY', KEYS[1], '~shared_tokens:' .. name, format('%d', tokens)) end
  end
  for tool, u in pairs(usages) do
    if u.dirty then
      call('HSET', KEYS[1], '~usage:' .. tool, format('%d %d %d %d %d %d %d %d %d', period, u.seen, u.micro, u.tokens,
        u.seen0, u.micro0, u.tokens0, u.running, u.ends))
    end
  end
  if #done > 0 then
    local key = KEYS[5 + period % 2]
    call('SADD', key, unpack(done))
    call('PEXPIREAT', key, format('%d', (period + 2) * memory))
  end
  if #out > 0 then
    call('XADD', KEYS[7], '*', unpack(out))
    call('HINCRBY', KEYS[1], '~outbox', #out / 2)
  end
end

local function spending()
  local reply = {}
  for _, name in ipairs(dirty) do
    local c = state[name]
    if c[1] ~= c[5] or c[3] ~= c[6] then
      reply[#reply + 1] = name
      reply[#reply + 1] = format('%d %d %d %d', c[5], c[1], c[6], c[3])
    end
  end
  return reply
end
