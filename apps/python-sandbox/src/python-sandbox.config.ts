import {
  defineConfig,
  drainFaults,
  drainTimeout,
  durationMs,
  FLEET_FILE_KEYS,
  integer,
  path,
  REDIS_KEYS,
  type SettingsOf,
} from '@toolfleet/service';

/** All environment variables of this service. Policy (strictness, extra modules) arrives with each job; packages are in the configuration file. */
export const pythonSandboxConfig = defineConfig(
  'python-sandbox',
  {
    DRAIN_TIMEOUT_MS: drainTimeout(60_000),
    ...REDIS_KEYS,
    ...FLEET_FILE_KEYS,
    PYTHON_WASI_WASM_PATH: path({
      optional: true,
      must: 'file',
      help: 'CPython as a WASI module; if unset, the packaged one is used and its digest checked',
    }),
    PYTHON_WASI_STDLIB_PATH: path({
      optional: true,
      must: 'folder',
      help: 'Folder that contains python3.x with the standard library, for a module that does not embed it',
    }),
    WASI_MEMORY_LIMIT_MB: integer({
      default: 512,
      min: 64,
      max: 2_048,
      help: 'Memory limit of a run in MiB; a tool can only lower it',
    }),
    WASI_TIMEOUT_SECONDS: integer({
      default: 60,
      min: 1,
      max: 60,
      help: 'Longest run in seconds; calls cannot exceed it',
    }),
    PYTHON_WASI_SESSION_TIMEOUT: integer({
      default: 3_600,
      min: 1,
      max: 604_800,
      help: 'Seconds after its last use until the variables of a session expire',
    }),
    PYTHON_SESSION_QUOTA_MB: integer({
      default: 64,
      min: 0,
      help: 'MiB that the variables of all sessions of a tenant may have in Redis; 0 means no limit',
    }),
    PYTHON_SANDBOX_THREADS: integer({ default: 0, min: 0, max: 64, help: 'Concurrent runs; 0 means one per core' }),
    PYTHON_SANDBOX_MEMORY_BUDGET_MB: integer({
      default: 0,
      min: 0,
      help: 'Most MiB that the memory limits of concurrent runs may add up to; further runs wait. 0 means threads x WASI_MEMORY_LIMIT_MB',
    }),
    PYTHON_SANDBOX_WARM_UP_MS: durationMs({
      default: 20_000,
      min: 0,
      max: 120_000,
      help: 'Longest time to warm up the interpreter before the service is ready; at most 5 s in local mode',
    }),
    PYTHON_SANDBOX_GRACE_MS: durationMs({
      default: 500,
      min: 50,
      max: 60_000,
      help: 'How long a run may exceed its timeout before the whole sandbox host is killed',
    }),
    PYTHON_SANDBOX_RECYCLE_RSS_MB: integer({
      default: 2_048,
      min: 128,
      help: 'Resident memory in MiB at which the sandbox host is replaced',
    }),
  },
  {
    check: ({ PYTHON_SANDBOX_MEMORY_BUDGET_MB: budget, WASI_MEMORY_LIMIT_MB: limit, ...paths }) => [
      ...drainFaults(paths, 'WASI_TIMEOUT_SECONDS', paths.WASI_TIMEOUT_SECONDS * 1_000),
      ...(budget !== 0 && budget < limit
        ? [{ key: 'PYTHON_SANDBOX_MEMORY_BUDGET_MB', message: `must be 0 or at least WASI_MEMORY_LIMIT_MB (${limit})` }]
        : []),
      ...(paths.PYTHON_WASI_STDLIB_PATH && !paths.PYTHON_WASI_WASM_PATH
        ? [
            {
              key: 'PYTHON_WASI_STDLIB_PATH',
              message: 'requires PYTHON_WASI_WASM_PATH: the packaged module embeds its own standard library',
            },
          ]
        : []),
    ],
  },
);
export type PythonSandboxConfig = SettingsOf<typeof pythonSandboxConfig.table>;
