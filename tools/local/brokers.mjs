/** NATS and Redis of the local fleet: those named by NATS_URL / REDIS_URL, else our own on free loopback ports. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { brokerPrograms } from './broker-programs.mjs';
import { freePort, startProcess } from './child-process.mjs';
import { untilComplete } from './steps.mjs';

/**
 * Starts the brokers that no variable names. `supervise` starts one and keeps it running; a broker that is started again keeps its
 * port and its data.
 * @param {{root: string, stateDir: string, logDir: string, say: (line: string) => void,
 *   supervise: (options: {name: string, broker: true, logFile: string, spawn: Function}) => import('./supervisor.mjs').Supervised,
 *   onMissing: import('./steps.mjs').OnMissing}} options
 * @returns {Promise<{natsUrl: string, redisUrl: string, brokers: import('./supervisor.mjs').Supervised[]}>}
 */
export async function startBrokers({ root, stateDir, logDir, say, supervise, onMissing }) {
  const brokers = [];
  let { NATS_URL: natsUrl, REDIS_URL: redisUrl } = process.env;
  if (natsUrl) say('NATS_URL is set; starting no nats-server');
  if (redisUrl) say('REDIS_URL is set; starting no redis-server');
  if (natsUrl && redisUrl) return { natsUrl, redisUrl, brokers };
  const programs = await brokerPrograms(root, say);
  const start = async (name, program, port, args) => {
    const logFile = join(logDir, `${name}.log`);
    writeFileSync(logFile, '');
    const spawn = (onExit) => startProcess({ name, command: program, args, env: process.env, logFile, onExit });
    const broker = supervise({ name, broker: true, logFile, spawn });
    brokers.push(broker);
    await listening(name, port, () => broker.failure, onMissing);
    broker.hasServed = true;
  };
  if (!natsUrl) {
    const port = await freePort();
    const config = join(stateDir, 'nats.conf');
    // The limits of deploy/nats.conf without its users: on loopback everyone is the developer.
    writeFileSync(config, 'max_payload: 16MB\nping_interval: "5s"\nping_max: 2\nwrite_deadline: "2s"\n');
    await start('nats', programs.nats, port, ['-a', '127.0.0.1', '-p', String(port), '-c', config]);
    natsUrl = `nats://127.0.0.1:${port}`;
  }
  if (!redisUrl) {
    const port = await freePort();
    const dataDir = join(stateDir, 'redis');
    mkdirSync(dataDir, { recursive: true });
    await start('redis', programs.redis, port, redisArgs(port, dataDir));
    redisUrl = `redis://127.0.0.1:${port}`;
  }
  return { natsUrl, redisUrl, brokers };
}

/** Arguments of a Redis on a loopback port that keeps acknowledged writes. */
export function redisArgs(port, dataDir) {
  return [
    ...['--bind', '127.0.0.1', '--port', String(port), '--dir', dataDir],
    ...['--appendonly', 'yes', '--maxmemory-policy', 'noeviction', '--save', ''],
  ];
}

/**
 * Resolves once the port of a broker accepts connections.
 * @param {() => Error | undefined} failure why it never will
 * @param {import('./steps.mjs').OnMissing} [onMissing]
 */
export async function listening(name, port, failure, onMissing) {
  const look = () =>
    new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(undefined));
      socket.once('error', () => resolve(`does not listen on port ${port}`));
      socket.once('connect', () => socket.destroy());
    });
  await untilComplete(name, look, { failure, onMissing, everyMs: 50 });
}
