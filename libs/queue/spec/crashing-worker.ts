/** A worker process for failure.spec.ts: hangs, dies or works as the job says. */
import { SystemClock } from '@toolfleet/resilience';
import { connectRedis, JobWorker, openRedis, RedisTime, type JobData } from '../src/index.js';

const [url = '', queue = ''] = process.argv.slice(2);
const clock = new SystemClock();
const redis = connectRedis(url, { name: 'crashing', role: 'blocking' });
const publisher = connectRedis(url, { name: 'crashing', role: 'commands' });
await openRedis(redis, url);
await openRedis(publisher, url);
const time = new RedisTime(publisher, clock);
await time.start();
const worker = new JobWorker<JobData & { work: string }, unknown>({
  queue,
  redis,
  publisher,
  time,
  concurrency: 1,
  handler: async ({ data, isRepeated }) => {
    process.send?.({ took: data.call_id });
    if (data.work === 'die') process.kill(process.pid, 'SIGKILL');
    if (data.work === 'hang') await new Promise(() => undefined);
    return { by: process.pid, repeated: isRepeated };
  },
});
await worker.start();
process.send?.({ started: true });
