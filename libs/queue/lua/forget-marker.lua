-- Around BullMQ's scripts that give a worker a job, see src/taking-worker.ts: `taken` is what BullMQ's script returns, `{job, id, …}`.
-- BullMQ leaves a marker for a further job without looking whether there is one. It is removed if the job was the last, and the fifth
-- value of the result is 1. A delayed job may be due before the next marker, so nothing changes while there is one.
--
-- KEYS: 1 waiting jobs, 3 jobs with a priority, 7 delayed jobs, the last one the marker; as in both scripts of BullMQ.
if type(taken) == 'table' and taken[1] and taken[1] ~= 0
  and redis.call('LLEN', KEYS[1]) + redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[7]) == 0 then
  redis.call('ZREM', KEYS[#KEYS], '0')
  taken[5] = 1
end
return taken
