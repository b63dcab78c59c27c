/** NATS and Redis of the local fleet: those named by NATS_URL / REDIS_URL, else our own on free loopback ports. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { brokerPrograms } from './broker-programs.mjs';
import { freePort, startProcess } from './child-process.mjs';

/**
 * @returns {Promise<{natsUrl: string, redisUrl: string, processes: ReturnType<typeof startProcess>[]}>}
 */
export async function startBrokers({ stateDir, logDir, say }) {
  const processes = [];
  let { NATS_URL: natsUrl, REDIS_URL: redisUrl } = process.env;
  if (natsUrl && redisUrl) return { natsUrl, redisUrl, processes };
  const programs = brokerPrograms(stateDir, say);
  const env = { ...process.env, ...programs.env };
  if (!natsUrl) {
    const port = await freePort();
    const config = join(stateDir, 'nats.conf');
    // The limits of deploy/nats.conf without its users: on loopback everyone is the developer.
    writeFileSync(config, 'max_payload: 16MB\nping_interval: "5s"\nping_max: 2\nwrite_deadline: "2s"\n');
    processes.push(
      startProcess({
        name: 'nats',
        command: programs.nats,
        args: ['-a', '127.0.0.1', '-p', String(port), '-c', config],
        env,
        logFile: join(logDir, 'nats.log'),
      }),
    );
    natsUrl = `nats://127.0.0.1:${port}`;
    await listening('nats-server', port, processes.at(-1));
  }
  if (!redisUrl) {
    const dataDir = join(stateDir, 'redis');
    mkdirSync(dataDir, { recursive: true });
    const redis = await startRedis({ stateDir, dataDir, logDir, say });
    processes.push(redis.child);
    redisUrl = redis.url;
  }
  return { natsUrl, redisUrl, processes };
}

/** A Redis of our own on a free loopback port. */
export async function startRedis({ stateDir, dataDir, logDir, say }) {
  const programs = brokerPrograms(stateDir, say);
  const port = await freePort();
  const child = startProcess({
    name: 'redis',
    command: programs.redis,
    args: [
      ...['--bind', '127.0.0.1', '--port', String(port), '--dir', dataDir],
      ...['--appendonly', 'yes', '--maxmemory-policy', 'noeviction', '--save', ''],
    ],
    env: { ...process.env, ...programs.env },
    logFile: join(logDir, 'redis.log'),
  });
  await listening('redis-server', port, child);
  return { url: `redis://127.0.0.1:${port}`, child };
}

async function listening(name, port, child) {
  for (let tries = 0; tries < 200; tries += 1) {
    if (!child.running()) break;
    const open = await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(true));
      socket.once('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
    if (open) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${name} did not start; see its log under .toolfleet/logs`);
}
