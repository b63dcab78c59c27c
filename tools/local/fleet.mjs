/** The local fleet: brokers, samples and the services as child processes, with one state folder. */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { SERVICES } from '../../apps/standalone/dist/standalone.config.js';
import { checkConfiguration, configurationFiles, FaultPrinter } from './configuration.mjs';
import { startBrokers } from './brokers.mjs';
import { freePort, portIsFree, startProcess } from './child-process.mjs';
import { untilComplete } from './steps.mjs';
import { Supervised } from './supervisor.mjs';

/** Services stop within this time, brokers after them: 5 s in all. */
const SERVICE_GRACE_MS = 3_500;
const BROKER_GRACE_MS = 1_000;
/** Services without state of their own. A plugin or the command of an MCP server may keep some, which a second executor would split. */
const SERVICES_OF_WORKERS = ['openapi-executor', 'gateway'];

/**
 * Starts everything and resolves when each service reports ready, however long that takes; `step` shows the missing ones. With `together` the services share a process, and `workers` - 1 more have a gateway each, behind the same port. Processes that end are started again until `stop`; one that keeps
 * ending is given up: before the fleet is ready the start fails, later `onGivenUp` receives the error.
 * `onStop` receives, before anything is started, the way to stop what runs by then: a start that is interrupted or fails leaves no
 * process behind.
 * @param {{root: string, stateDir: string, together?: boolean, workers?: number, say: (line: string) => void,
 *   step?: typeof import('./steps.mjs').step,
 *   onGivenUp: (error: import('./supervisor.mjs').GivenUpError) => void,
 *   onStop?: (stop: () => Promise<void>) => void}} options
 */
export async function startFleet({
  root,
  stateDir,
  together = false,
  workers = 1,
  say,
  step = (_title, work) => work(() => {}),
  onGivenUp,
  onStop,
}) {
  const logDir = join(stateDir, 'logs');
  mkdirSync(logDir, { recursive: true });
  const statePath = join(stateDir, 'local.json');
  const release = lock(join(stateDir, 'pid'), statePath);
  const processes = new Processes(say, (error) => ready && onGivenUp(error));
  let ready = false;
  const stop = async () => {
    await processes.stop();
    rmSync(statePath, { force: true });
    release();
  };
  onStop?.(stop);
  const supervise = (options) => processes.start(options);
  try {
    const gatewayPort = Number(process.env.GATEWAY_PORT ?? 8080);
    if (!(await portIsFree(gatewayPort))) {
      throw new Error(`port ${gatewayPort} is busy; stop what uses it or choose another: GATEWAY_PORT=8081 npm start`);
    }
    const { natsUrl, redisUrl, brokers } = await step('starting nats-server and redis-server', (onMissing) =>
      startBrokers({ root, stateDir, logDir, say, supervise, onMissing }),
    );
    const samples = await startSamples({ root, logDir, supervise });
    const secrets = localSecrets(join(stateDir, 'secrets.json'));
    const ownConfig = !process.env.TOOLFLEET_CONFIG;
    const config = configurationFiles({ root, stateDir, samples });
    await checkConfiguration(config);
    const printer = new FaultPrinter(say);
    const apiKey = process.env.TOOLFLEET_DEV_API_KEY ?? secrets.dev_api_key;
    const environment = {
      // The scripted model of the tour, unless a real one is named.
      LLM_BASE_URL: `${samples.SAMPLE_MODEL_URL}/v1`,
      LLM_MODEL: 'sample',
      LLM_API_KEY: 'key-of-the-sample-model',
      DATABASE_DIR: join(stateDir, 'data'),
      WORKSPACES_DIR: join(stateDir, 'workspaces'),
      CONSOLE_DIR: join(root, 'apps/console/dist/web'),
      GATEWAY_IDENTITY: 'true',
      GATEWAY_LOG_SEARCH: `grep -h {trace_id} '${logDir}'/*.log`,
      GATEWAY_TOKEN_SECRET: secrets.token_secret,
      API_KEY_PEPPER: secrets.key_pepper,
      REGISTRY_SECRET_KEY: secrets.registry_key,
      RECORDS_SECRET_KEY: secrets.records_key,
      IDENTITY_SECRET_KEYS: `k1:${secrets.identity_key}`,
      EGRESS_ENDPOINTS_FILE: join(stateDir, 'allowed-endpoints'),
      ...process.env,
      NATS_URL: natsUrl,
      REDIS_URL: redisUrl,
      GATEWAY_PORT: String(gatewayPort),
      ENVIRONMENT: 'development',
      TOOLFLEET_LOCAL: 'true',
      TOOLFLEET_CONFIG: config.join(','),
      TOOLFLEET_DEV_API_KEY: apiKey,
      ADMIN_HOST: '127.0.0.1',
      DRAIN_TIMEOUT_MS: '3000',
      EGRESS_ALLOWED_ENDPOINTS: [process.env.EGRESS_ALLOWED_ENDPOINTS, ...Object.values(samples)]
        .filter(Boolean)
        .join(','),
    };
    const parts = together ? { standalone: {} } : Object.fromEntries(SERVICES.map((name) => [name, {}]));
    for (let number = 2; number <= workers; number += 1)
      parts[`worker-${number}`] = { app: 'standalone', services: SERVICES_OF_WORKERS };
    const failure = () => processes.failure;
    const services = await step(`starting the ${SERVICES.length} services`, (onMissing) => {
      const common = { root, logDir, environment, supervise, printer, wait: { failure, onMissing } };
      return Promise.all(Object.entries(parts).map(([name, part]) => startService({ name, ...part, ...common })));
    });
    const state = () => ({
      url: `http://127.0.0.1:${gatewayPort}`,
      api_key: apiKey,
      nats_url: natsUrl,
      redis_url: redisUrl,
      samples,
      broker_pids: Object.fromEntries(brokers.map(({ name, child }) => [name, child.pid])),
      services: services.map(({ name, adminPort, part, logFile }) => ({
        name,
        pid: part.child.pid,
        admin_url: `http://127.0.0.1:${adminPort()}`,
        log: logFile,
      })),
    });
    const fleet = state();
    // Sources announce their tools right after they are ready; the first call a user pastes must find its tool.
    const tools = [
      ...(environment.BUILTIN_TOOLSETS?.includes('compute') === false ? [] : ['calculator']),
      'execute_python',
      ...(ownConfig ? ['parcels_getParcel', 'sample_add'] : []),
    ];
    await step('listing the first tools', (onMissing) => toolsListed(fleet, tools, printer, { failure, onMissing }));
    const write = () => writePrivate(statePath, state());
    write();
    // A process that was started again has another pid.
    processes.onRestart = write;
    if (processes.failure) throw processes.failure;
    ready = true;
    return { fleet, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The supervised processes of a fleet. Once stopped, none is started. */
class Processes {
  failure;
  onRestart = () => {};
  #all = [];
  #stopped = false;
  #say;
  #onGivenUp;

  constructor(say, onGivenUp) {
    this.#say = say;
    this.#onGivenUp = onGivenUp;
  }

  /** Starts a process and keeps it running; `spawn` receives what to do when it ends. */
  start({ spawn, ...options }) {
    const part = new Supervised({
      ...options,
      spawn: (onExit) => {
        const child = spawn(onExit);
        queueMicrotask(() => this.onRestart());
        return child;
      },
      say: this.#say,
      onGivenUp: (error) => {
        this.failure ??= error;
        this.#onGivenUp(error);
      },
    });
    this.#all.push(part);
    if (!this.#stopped) part.start();
    return part;
  }

  /** Stops the services, then the brokers they need for it. */
  async stop() {
    this.#stopped = true;
    const [brokers, rest] = [this.#all.filter((part) => part.broker), this.#all.filter((part) => !part.broker)];
    // No broker that ends meanwhile is started again.
    for (const part of brokers) part.release();
    await Promise.all(rest.map((part) => part.stop(SERVICE_GRACE_MS)));
    await Promise.all(brokers.map((part) => part.stop(BROKER_GRACE_MS)));
  }
}

/** A fleet with the same state folder runs already. `fleet` is what `startFleet` returned for it. */
export class RunningFleetError extends Error {
  constructor(pid, fleet) {
    super(`a fleet with this state folder already runs (pid ${pid})`);
    this.pid = pid;
    this.fleet = fleet;
  }
}

/** One state folder serves one fleet: two would write the same Redis files. */
function lock(path, statePath) {
  try {
    const file = openSync(path, 'wx');
    writeSync(file, String(process.pid));
    closeSync(file);
  } catch {
    const owner = Number(readFileSync(path, 'utf8'));
    if (owner && isAlive(owner)) {
      if (existsSync(statePath)) throw new RunningFleetError(owner, JSON.parse(readFileSync(statePath, 'utf8')));
      throw new Error(`a fleet with this state folder is starting or stopping (pid ${owner})`);
    }
    writeFileSync(path, String(process.pid));
  }
  return () => rmSync(path, { force: true });
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Writes a file that others may read at any time: they see the old content or the new, never a part. */
function writePrivate(path, content) {
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, path);
}

/** Secrets of this folder's fleet, made once; never leave the machine. */
function localSecrets(path) {
  const kept = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {};
  const secret = (name, prefix = '') => (kept[name] ??= prefix + randomBytes(32).toString('base64url'));
  secret('dev_api_key', 'dev_');
  secret('token_secret');
  secret('key_pepper');
  secret('registry_key');
  secret('records_key');
  secret('identity_key');
  writePrivate(path, kept);
  return kept;
}

/** The sample API, MCP server and model of the tour, on free ports or those named. Keys are the placeholders of sources.yaml. */
async function startSamples({ root, logDir, supervise }) {
  const portOf = async (key) => Number(process.env[`${key}_PORT`]) || freePort();
  const keys = ['SAMPLE_API', 'SAMPLE_MCP', 'SAMPLE_MODEL'];
  const ports = Object.fromEntries(await Promise.all(keys.map(async (key) => [key, await portOf(key)])));
  const logFile = join(logDir, 'samples.log');
  const env = { ...process.env, HOST: '127.0.0.1', ...mapKeys(ports, (key) => `${key}_PORT`) };
  const args = [join(root, 'tools/samples/dist/main.js')];
  writeFileSync(logFile, '');
  supervise({
    name: 'samples',
    logFile,
    spawn: (onExit) =>
      startProcess({ name: 'samples', command: process.execPath, args, env, logFile, ipc: true, onExit }),
  });
  return mapKeys(
    ports,
    (key) => `${key}_URL`,
    (port) => `http://127.0.0.1:${port}`,
  );
}

function mapKeys(record, keyOf, valueOf = String) {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [keyOf(key), valueOf(value)]));
}

/** Starts a service and resolves when it is ready. Started again it keeps its admin port, as its metrics are scraped there. */
async function startService({ name, app = name, services, root, logDir, environment, supervise, printer, wait }) {
  const logFile = join(logDir, `${name}.log`);
  writeFileSync(logFile, '');
  let adminPort;
  const part = supervise({
    name,
    logFile,
    spawn: (onExit) =>
      startProcess({
        name,
        command: process.execPath,
        args: [join(root, 'apps', app, 'dist/main.js')],
        env: {
          ...environment,
          ADMIN_PORT: String(adminPort ?? 0),
          ...(services && { TOOLFLEET_SERVICES: services.join() }),
        },
        logFile,
        ipc: true,
        onMessage: (message) => {
          adminPort = message?.admin_port ?? adminPort;
          printer.show(name, message?.faults);
        },
        onExit,
      }),
  });
  await untilComplete(name, () => (adminPort ? missingParts(adminPort) : 'is loading'), wait);
  part.hasServed = true;
  return { name, part, logFile, adminPort: () => adminPort };
}

/**
 * Resolves once the catalogue has the tools, dangerous and quarantined ones included. One that does not come is shown with the faults of
 * sources until it does.
 */
async function toolsListed({ url, api_key: key }, wanted, printer, wait) {
  const look = async () => {
    const catalog = await json(`${url}/api/v1/catalog`, { authorization: `Bearer ${key}` });
    const missing = wanted.filter((name) => !catalog?.some?.((tool) => tool.name === name));
    return missing.length > 0 ? [...missing, ...printer.ofSources].join('; ') : undefined;
  };
  await untilComplete('tools', look, { ...wait, everyMs: 200 });
}

/** The parts of a service that are not ready; undefined once it is. */
async function missingParts(adminPort) {
  const health = await json(`http://127.0.0.1:${adminPort}/health/ready`);
  if (health?.status === 'ready') return undefined;
  const missing = Object.entries(health?.parts ?? {}).flatMap(([part, isReady]) => (isReady ? [] : [part]));
  return missing.join(', ') || 'is starting';
}

/** The body of a response; undefined when there is none in time, so that the next look asks again. */
async function json(url, headers = {}) {
  try {
    return await (await fetch(url, { headers, signal: AbortSignal.timeout(10_000) })).json();
  } catch {
    return undefined;
  }
}
