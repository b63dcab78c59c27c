/**
 * `npm start`: the whole fleet on this machine, until Ctrl-C or SIGTERM. Its services share a process. Further gateways serve its port, one for
 * two cores (`-- --workers N`). With `-- --separate` each service has a process of its own, as in production.
 */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readDotEnv } from './configuration.mjs';
import { onInterrupt } from './child-process.mjs';
import { RunningFleetError, startFleet } from './fleet.mjs';
import { shellFile } from './shell-file.mjs';
import { complain, say, step } from './steps.mjs';

// Secrets, logs and the data of brokers and services are for this user only.
process.umask(0o077);

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
await readDotEnv(process.cwd(), ROOT, complain);
const ownDir = process.env.TOOLFLEET_STATE_DIR;
const stateDir = ownDir ? resolve(ownDir) : join(ROOT, '.toolfleet');
mkdirSync(stateDir, { recursive: true });
// It may be older than this rule. A folder that the user names may have other uses.
if (!ownDir) chmodSync(stateDir, 0o700);

/** What a worker takes under load. */
const WORKER_BYTES = 256 * 1024 * 1024;
const environmentFile = join(stateDir, 'env');

const devKey = process.env.TOOLFLEET_DEV_API_KEY;
if (devKey !== undefined && devKey.length < 16) fail('TOOLFLEET_DEV_API_KEY must have 16 characters or more');

const { separate, workers } = readArguments();

let stopping;
let stopFleet;
const stop = (code) => {
  stopping ??= (async () => {
    await stopFleet?.();
    process.exit(code);
  })();
};
onInterrupt(() => stop(0));

try {
  const startedAt = Number(process.env.TOOLFLEET_STARTED_AT ?? Date.now());
  const { fleet } = await startFleet({
    root: ROOT,
    stateDir,
    together: !separate,
    workers,
    say,
    step,
    onStop: (stopAll) => (stopFleet = stopAll),
    onGivenUp: (error) => {
      complain(`${error.message}\ntoolfleet: stopping the fleet`);
      stop(error.exitCode);
    },
  });
  writeFileSync(environmentFile, shellFile(environmentFile, fleet), { mode: 0o600 });
  const tookMs = Date.now() - startedAt;
  process.stdout.write(
    `\ntoolfleet is ready (${(tookMs / 1000).toFixed(1)} s). Stop it with Ctrl-C.\n${screen(fleet)}`,
  );
} catch (error) {
  if (error instanceof RunningFleetError) {
    process.stdout.write(`\ntoolfleet already runs here (pid ${error.pid}).\n${screen(error.fleet)}`);
    process.exit(0);
  }
  // Interrupted: the signal handler that stops the fleet also ends this process.
  if (!stopping) fail(error.message, error.exitCode);
}

function screen({ url, api_key: key, nats_url: natsUrl, redis_url: redisUrl, services }) {
  const config = process.env.TOOLFLEET_CONFIG ?? join(stateDir, 'fleet.yaml');
  const metrics = services.map(({ name, admin_url: admin }) => `${name} ${admin}/metrics`);
  return `
  Console    ${url}/console
  API key    TOOLFLEET_API_KEY=${key}
  HTTP API   ${url}/api/v1/tools        MCP  ${url}/mcp
  NATS       ${natsUrl}        Redis  ${redisUrl}
  Files      ${config}  .env  ${join(stateDir, 'logs')}
  Metrics    ${metrics.join('\n             ')}

In another terminal: a builtin tool, Python in the sandbox, an operation of an OpenAPI service, a tool of an MCP server, and your own API or MCP server
  . ${environmentFile}
  tool calculator '{"expression": "2 * (3 + 4)"}'
  tool execute_python '{"code": "sum(range(10))"}'
  tool parcels_getParcel '{"parcel_id": "P-1001"}'
  tool sample_add '{"a": 2, "b": 40}'
  npx fleetctl sources add URL-OR-FILE --allow
`;
}

function readArguments() {
  try {
    const { values } = parseArgs({ options: { separate: { type: 'boolean' }, workers: { type: 'string' } } });
    if (values.separate) {
      if (values.workers !== undefined) throw new Error('--workers needs services that share a process');
      return { separate: true, workers: 1 };
    }
    const number = values.workers ?? String(defaultWorkers());
    if (!/^[1-9]\d?$/.test(number)) throw new Error('--workers must be a number from 1 to 99');
    return { separate: false, workers: Number(number) };
  } catch (error) {
    return fail(`${error.message}\nusage: npm start [-- --separate | --workers N]`);
  }
}

/** One for two cores, because brokers, the sandbox, databases and the collector of garbage need the rest, and none beyond a quarter of the memory. */
function defaultWorkers() {
  if (process.platform !== 'linux') return 1;
  return Math.max(1, Math.min(Math.floor(availableParallelism() / 2), Math.floor(totalmem() / 4 / WORKER_BYTES)));
}

function fail(message, exitCode = 1) {
  complain(message);
  process.exit(exitCode);
}
