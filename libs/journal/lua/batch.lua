-- Runs a script of one call for the calls of one turn of an event loop: a command for each would cost their process ten times as much as
-- what is in it. KEYS: one of each call. ARGV: for each call the number of its arguments, then these.
-- @returns their results as JSON, which clients read faster than a list; an error that one of them raised after the first is a result, because
-- those before it have written
local function run(KEYS, ARGV)
  --SCRIPT
end

local results = {}
local at = 1
for call = 1, #KEYS do
  local arguments = {}
  for n = 1, tonumber(ARGV[at]) do arguments[n] = ARGV[at + n] end
  at = at + #arguments + 1
  if call == 1 then
    results[call] = run({ KEYS[call] }, arguments)
  else
    local isDone, result = pcall(run, { KEYS[call] }, arguments)
    if not isDone then result = { err = type(result) == 'table' and result.err or tostring(result) } end
    results[call] = result
  end
end
return cjson.encode(results)
