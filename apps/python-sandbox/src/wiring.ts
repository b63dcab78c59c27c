import { availableParallelism } from 'node:os';
import type { ExecJob, ExecResponse } from '@toolfleet/contracts/execution';
import { QUEUES } from '@toolfleet/contracts/subjects';
import { connectRedis, JobWorker, redisComponent, RedisTime, StoreWatch, toRedisOptions } from '@toolfleet/queue';
import {
  FatalStartupError,
  fleetFileReloader,
  loadFleetFile,
  type LifecycleComponent,
  type ServiceHost,
} from '@toolfleet/service';
import { namedInterpreter, Sandbox, SCRIPTS, type HostSettings, type PythonPackage } from '@toolfleet/wasi-python';
import type { PythonSandboxConfig } from './python-sandbox.config.js';
import { packagesOf, readPackages } from './python-packages.js';
import { ProgramWorker } from './program.worker.js';
import { PythonWorker } from './python.worker.js';
import { RedisSessionStore } from './redis-session-store.js';
import type { RunLimits } from './run-arguments.js';

/** In local mode the machine runs six other services, so a short start matters more than peak speed. */
const LOCAL_WARM_UP_MS = 5_000;
/** Runs after which the host process is replaced, whatever its memory: leaks of the engine stay small. */
const RECYCLE_RUNS = 50_000;
/** Elements of the function table that a module may grow to; CPython has about 6,000. */
const TABLE_LIMIT = 10_000;
/** Bytes kept of stdout and of stderr. */
const OUTPUT_CAP = 1024 * 1024;
/**
 * How often a program may lose its worker. Its calls happen once, however often it runs, and it runs in a host process, so it is rarely
 * what ends a worker.
 */
const MAX_LOST_BY_PROGRAMS = 2;
/** Jobs with less time left are refused, because their response would be late. */
const LEAST_MS = 60;

/** Builds the components of the service in start order: Redis, the sandbox with its interpreter, and last the workers. */
export function createComponents(settings: PythonSandboxConfig, host: ServiceHost): LifecycleComponent[] {
  const { clock, logger, metrics, draining } = host;
  const redisOptions = { ...toRedisOptions(settings), log: logger };
  const url = settings.REDIS_URL;
  const commands = connectRedis(url, { ...redisOptions, name: 'python-sandbox', role: 'commands' });
  const blocking = connectRedis(url, { ...redisOptions, name: 'python-sandbox-jobs', role: 'blocking' });
  const time = new RedisTime(commands, clock, metrics);
  const file = loadFleetFile(settings);
  const packages = orRefuseStart(() => readPackages(file.python_packages));
  const hostSettings = toHostSettings(settings, packages);
  const sandbox = new Sandbox({
    clock,
    settings: hostSettings,
    hostScript: SCRIPTS.host,
    graceMs: settings.PYTHON_SANDBOX_GRACE_MS,
    recycleRuns: RECYCLE_RUNS,
    recycleRssMb: settings.PYTHON_SANDBOX_RECYCLE_RSS_MB,
    onKilled: (reason) => metrics.sandboxKilled.inc({ reason }),
    onReady: (bootMs) => metrics.sandboxBoot.observe({ kind: 'cold' }, bootMs / 1_000),
    onRestored: (restoreMs) => metrics.sandboxBoot.observe({ kind: 'restored' }, restoreMs / 1_000),
    onEvent: (event, facts) => logger.warn(facts, event),
  });
  const limits: RunLimits = {
    maxTimeoutMs: settings.WASI_TIMEOUT_SECONDS * 1_000,
    memoryLimitMb: settings.WASI_MEMORY_LIMIT_MB,
    packagesOf: (tenantId) => packagesOf(packages, tenantId),
  };
  const sessionQuotaBytes = settings.PYTHON_SESSION_QUOTA_MB * 1024 * 1024;
  const sessions = new RedisSessionStore(commands, settings.PYTHON_WASI_SESSION_TIMEOUT, sessionQuotaBytes);
  const python = new PythonWorker(sandbox, sessions, limits, clock);
  const programs = new ProgramWorker(sandbox, limits, clock);
  const shared = {
    redis: blocking,
    publisher: commands,
    time,
    clock,
    metrics,
    leastMs: () => LEAST_MS,
    draining,
    onFault: (error: unknown, jobId?: string) => logger.error({ error, jobId }, 'a job failed with an internal error'),
  };
  const pythonRuns = new JobWorker<ExecJob, ExecResponse>({
    ...shared,
    queue: QUEUES.pythonRuns,
    concurrency: hostSettings.threads,
    handler: (run) => python.handle(run),
  });
  const programRuns = new JobWorker<ExecJob, ExecResponse>({
    ...shared,
    queue: QUEUES.programRuns,
    concurrency: hostSettings.programs,
    asks: true,
    maxLost: MAX_LOST_BY_PROGRAMS,
    shareOf: (job) => job.tenant_id,
    handler: (run) => programs.handle(run),
  });
  return [
    redisComponent(commands, url),
    new StoreWatch(commands, url, host),
    redisComponent(blocking, url, 'redis for jobs'),
    { name: 'redis time', start: () => time.start(), ready: () => time.known, stop: async () => time.stop() },
    fleetFileReloader(settings, file, host),
    sandboxComponent(sandbox),
    {
      name: 'python packages',
      settings: ['TOOLFLEET_CONFIG'],
      start: () => python.check(packages).catch(refuseStart),
    },
    // One thread more than runs at once: the spare takes its turn.
    { name: 'warm-up', start: () => python.warmUp(hostSettings.threads + 1) },
    pythonRuns,
    programRuns,
  ];
}

/** Restarting does not help against a wrong interpreter or package. */
function refuseStart(error: unknown): never {
  throw new FatalStartupError(error instanceof Error ? error.message : String(error));
}

function orRefuseStart<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    return refuseStart(error);
  }
}

function sandboxComponent(sandbox: Sandbox): LifecycleComponent {
  return {
    name: 'sandbox',
    settings: ['PYTHON_WASI_WASM_PATH', 'PYTHON_WASI_STDLIB_PATH'],
    start: () => sandbox.start().catch(refuseStart),
    ready: () => sandbox.isReady,
    stop: () => sandbox.close(),
  };
}

function toHostSettings(
  settings: PythonSandboxConfig,
  packages: readonly PythonPackage[],
): Omit<HostSettings, 'warmUpFirst'> {
  const threads = settings.PYTHON_SANDBOX_THREADS || availableParallelism();
  const memoryLimitMb = settings.WASI_MEMORY_LIMIT_MB;
  const warmUpMs = settings.PYTHON_SANDBOX_WARM_UP_MS;
  return {
    interpreter: {
      ...namedInterpreter(settings.PYTHON_WASI_WASM_PATH, settings.PYTHON_WASI_STDLIB_PATH),
      tableLimit: TABLE_LIMIT,
    },
    packages,
    threadScript: SCRIPTS.thread,
    threads,
    // A program that waits for its calls needs memory and no processor.
    programs: 2 * threads,
    outputCap: OUTPUT_CAP,
    memoryLimitMb,
    memoryBudgetMb: settings.PYTHON_SANDBOX_MEMORY_BUDGET_MB || threads * memoryLimitMb,
    warmUpMs: settings.TOOLFLEET_LOCAL ? Math.min(warmUpMs, LOCAL_WARM_UP_MS) : warmUpMs,
  };
}
