-- Keeps results. KEYS: where; ARGV, for each key: its text, its life in ms.

for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[2 * i - 1], 'PX', ARGV[2 * i]) end
return #KEYS
