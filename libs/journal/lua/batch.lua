-- Runs a script of one call for the calls of one turn of an event loop: a command for each would cost their process ten times as much as
-- what is in it. KEYS: one of each call. ARGV: 1 the arguments of each call as JSON, because each argument of a command costs its process
-- as well; a number stands for the argument of this command that is meant.
-- @returns their results as JSON, which clients read faster than a list; an error that one of them raised after the first is a result, because
-- those before it have written
local function run(KEYS, ARGV)
  --SCRIPT
end

local results = {}
for call, arguments in ipairs(cjson.decode(ARGV[1])) do
  for n, value in ipairs(arguments) do
    if type(value) == 'number' then arguments[n] = ARGV[value] end
  end
  if call == 1 then
    results[call] = run({ KEYS[call] }, arguments)
  else
    local isDone, result = pcall(run, { KEYS[call] }, arguments)
    if not isDone then result = { err = type(result) == 'table' and result.err or tostring(result) } end
    results[call] = result
  end
end
return cjson.encode(results)
