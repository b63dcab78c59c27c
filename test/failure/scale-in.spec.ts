/**
 * Scaling in takes pods away while they work. The autoscaler's own rule starts real workers of python-sandbox, 1 → 4, and is
 * then told that the queue is empty while every slot is taken: 4 → 1. No run may be lost, and none may begin twice.
 */
import type { JsonObject } from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import { eventually, startRedis, startServiceProcess, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LocalAutoscaler, type Worker } from '../../tools/autoscale/src/local-autoscaler.js';
import { PYTHON_QUEUE, sleepingJob, type PythonJob } from '../../tools/autoscale/src/python-jobs.js';
import { programOf } from '../fleet/service-programs.js';
import { QueueClient } from '../../tools/autoscale/src/queue-client.js';
import { PRODUCTION_RULE, type QueueLook, type ScalingRule } from '../../tools/autoscale/src/scaling-rule.js';

const MAIN = programOf('python-sandbox');
/** Runs kept waiting until all workers are there, and how long each takes. */
const WAITING = 24;
const RUN_MS = 400;
const SLOTS = 2;
const NO_WORK: QueueLook = { waiting: 0, running: 0, oldestAgeMs: 0 };
/** The rule as deployed, at a pace for a test: all that may leave does so at once. */
const RULE: ScalingRule = {
  ...PRODUCTION_RULE,
  min: 1,
  max: 4,
  syncMs: 250,
  steadyMs: 1,
  downPods: 3,
  downPeriodMs: 1,
};

let redis: RedisServer;
let client: QueueClient<PythonJob, ExecResponse>;
beforeAll(async () => {
  redis = await startRedis();
  client = new QueueClient(redis.url, PYTHON_QUEUE);
  await client.open();
});
afterAll(async () => {
  await client?.close();
  await redis?.stop();
});

function startWorker(): Worker {
  const service = startServiceProcess({
    entry: MAIN,
    env: {
      REDIS_URL: redis.url,
      ADMIN_PORT: '0',
      PYTHON_SANDBOX_THREADS: String(SLOTS),
      PYTHON_SANDBOX_WARM_UP_MS: '0',
      WASI_MEMORY_LIMIT_MB: '128',
    },
  });
  return { ready: () => service.ready(), end: () => service.terminate() };
}

describe('scaling in', () => {
  it('takes three of four workers away amid their runs and loses or doubles none', async () => {
    let seesWork = true;
    const ready = new Set<Worker>();
    const scaler = new LocalAutoscaler({
      rule: RULE,
      look: () => (seesWork ? client.look() : Promise.resolve(NO_WORK)),
      start() {
        const worker = startWorker();
        return { end: worker.end, ready: () => worker.ready().then(() => void ready.add(worker)) };
      },
    });
    try {
      await scaler.prepare();
      scaler.begin();
      const answers: Promise<ExecResponse>[] = [];
      const fillUp = ({ waiting }: QueueLook) => {
        for (let left = WAITING - waiting; left > 0; left -= 1) {
          const index = answers.length;
          answers.push(client.submit(`run-${index}`, sleepingJob(`run-${index}`, index, RUN_MS)));
        }
      };
      await eventually('every slot of four workers is taken', async () => {
        const look = await client.look();
        fillUp(look);
        return ready.size === 4 && look.running === 4 * SLOTS;
      });
      seesWork = false;
      await eventually('one worker is left while runs wait', async () => {
        const look = await client.look();
        fillUp(look);
        return scaler.pods === 1 && look.waiting > 0;
      });

      const outcomes = (await Promise.all(answers)).map((reply) => reply.ok && (reply.output as JsonObject)['value']);
      expect(outcomes).toEqual(answers.map((_, index) => index));
      const begun = await Promise.all(answers.map((_, index) => timesBegun(`run-${index}`)));
      expect(begun.filter((times) => times !== 1)).toEqual([]);
      await eventually('those that left have ended', () => scaler.exitCodes.length === 3);
      expect(scaler.exitCodes).toEqual([0, 0, 0]);
    } finally {
      await scaler.stop();
    }
  });
});

/** How often a worker took the job up. */
async function timesBegun(jobId: string): Promise<number> {
  const [started] = await redis.client().hmget(`{fleet}:${PYTHON_QUEUE}:${jobId}`, 'ats');
  return Number(started);
}
