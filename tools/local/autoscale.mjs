/** `npm run autoscale`: lends tools/autoscale a Redis and workers of python-sandbox on this machine. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { autoscale } from '../autoscale/dist/main.js';
import { brokerPrograms } from './broker-programs.mjs';
import { listening, redisArgs } from './brokers.mjs';
import { freePort, onInterrupt, startProcess } from './child-process.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const folder = mkdtempSync(join(tmpdir(), 'toolfleet-autoscale-'));
const started = [];
const say = (line) => console.log(line);
let workers = 0;

const machine = {
  say,
  async startRedis() {
    const { redis } = await brokerPrograms(ROOT, say);
    const port = await freePort();
    const logFile = join(folder, 'redis.log');
    const child = startProcess({
      name: 'redis',
      command: redis,
      args: redisArgs(port, folder),
      env: process.env,
      logFile,
    });
    started.push(child);
    await listening('redis', port, () =>
      child.running() ? undefined : new Error(`redis ended: ${readFileSync(logFile, 'utf8')}`),
    );
    return `redis://127.0.0.1:${port}`;
  },
  startWorker(redisUrl, slots, warmUpMs) {
    workers += 1;
    const logFile = join(folder, `worker-${workers}.log`);
    let onReady;
    let onLost;
    const ready = new Promise((resolve, reject) => {
      onReady = resolve;
      onLost = () => reject(new Error(readFileSync(logFile, 'utf8').trim().split('\n').at(-1)));
    });
    const child = startProcess({
      name: `worker ${workers}`,
      command: process.execPath,
      args: [join(ROOT, 'apps/python-sandbox/dist/main.js')],
      env: {
        ...process.env,
        REDIS_URL: redisUrl,
        ADMIN_PORT: '0',
        ADMIN_HOST: '127.0.0.1',
        LOG_LEVEL: 'warn',
        PYTHON_SANDBOX_THREADS: String(slots),
        PYTHON_SANDBOX_WARM_UP_MS: String(warmUpMs),
        WASI_MEMORY_LIMIT_MB: '128',
      },
      logFile,
      ipc: true,
      onMessage: (message) => message?.started && onReady(),
      onExit: () => onLost(),
    });
    started.push(child);
    ready.catch(() => undefined);
    return {
      ready: () => ready,
      async end() {
        await child.stop(90_000);
        return child.exited;
      },
    };
  },
};

async function end(code) {
  await Promise.all(started.splice(0).map((child) => child.stop(2_000)));
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  process.exit(code);
}

onInterrupt(() => end(1));
try {
  await end(await autoscale(process.argv.slice(2), machine));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  await end(2);
}
