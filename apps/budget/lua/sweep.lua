-- Charges leases that expired unsettled and removes scopes unused for the scope TTL. The counters of a budget that
-- was set over the API (`user/2026-11:ada`) stay until its period is over. Runs in the background; settle.lua also sweeps a
-- few leases.
--
-- KEYS as in the prelude. ARGV 3 most leases and scopes per run, 4 this month: `2026-11`.
-- Returns {1 when more is left, leases charged, leases open, rows in the outbox, money held, [scope, "before after" of money and tokens]*}.
-- Continues prelude.lua.

local most = integer(ARGV[3])
local swept = sweep(most)
local before = now - tonumber(ARGV[2])
local idle = call('ZRANGEBYSCORE', KEYS[2], '-inf', before, 'LIMIT', 0, most)
local old, later = {}, {}
if #idle > 0 then
  local values = call('HMGET', KEYS[1], unpack(idle))
  for i, name in ipairs(idle) do
    local c = parse(values[i])
    local swept_now = state[name] and state[name].dirty
    local period = string.match(name, '^%a+/([^:]+)')
    -- A day of this month sorts after the month, and `total` after all of them.
    local is_kept = period and period >= ARGV[4]
    if not swept_now and not is_kept and c[7] <= before and c[2] == 0 and c[4] == 0 then
      old[#old + 1] = name
    else
      later[#later + 1] = is_kept and now or math.max(c[7], before + 1)
      later[#later + 1] = name
    end
  end
end
flush()
if #old > 0 then
  call('HDEL', KEYS[1], unpack(old))
  call('ZREM', KEYS[2], unpack(old))
  for _, name in ipairs(old) do call('HDEL', KEYS[1], '~shared:' .. name, '~shared_tokens:' .. name) end
end
if #later > 0 then call('ZADD', KEYS[2], unpack(later)) end
local more = 0
if swept == most or #old == most then more = 1 end
local charged = #out / 2
local waiting = tonumber(call('HGET', KEYS[1], '~outbox') or '0')
return { more, charged, call('HLEN', KEYS[3]), waiting, scope('tenant')[2], spending() }
