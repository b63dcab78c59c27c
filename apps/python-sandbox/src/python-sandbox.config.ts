import { defineConfig, durationMs, integer, path, REDIS_KEYS, type SettingsOf } from '@toolfleet/service';

/** Every environment key of this service. Its policy (strictness, extra modules) arrives in the job. */
export const pythonSandboxConfig = defineConfig(
  'python-sandbox',
  {
    ...REDIS_KEYS,
    PYTHON_WASI_WASM_PATH: path({
      optional: true,
      must: 'file',
      help: 'CPython as a WASI module; unset takes the packaged one and checks its digest',
    }),
    PYTHON_WASI_STDLIB_PATH: path({
      optional: true,
      must: 'folder',
      help: 'Folder that holds python3.x with the standard library, for a module that does not embed it',
    }),
    WASI_MEMORY_LIMIT_MB: integer({
      default: 512,
      min: 64,
      max: 2_048,
      help: 'Memory of one run in MiB; a tool can only lower it',
    }),
    WASI_TIMEOUT_SECONDS: integer({
      default: 60,
      min: 1,
      max: 60,
      help: 'Longest run in seconds, whatever a call asks for',
    }),
    WASI_TABLE_LIMIT: integer({
      default: 10_000,
      min: 1,
      max: 10_000_000,
      help: 'Most elements of the function table; a module that may grow past it is refused',
    }),
    PYTHON_WASI_SESSION_TIMEOUT: integer({
      default: 3_600,
      min: 1,
      max: 604_800,
      help: 'Seconds after its last use at which the variables of a session are forgotten',
    }),
    PYTHON_SANDBOX_THREADS: integer({ default: 0, min: 0, max: 64, help: 'Runs at once; 0 means one per core' }),
    PYTHON_SANDBOX_MEMORY_BUDGET_MB: integer({
      default: 0,
      min: 0,
      help: 'Most that the limits of all runs at once add up to; runs wait beyond it. 0 means threads x WASI_MEMORY_LIMIT_MB',
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
      help: 'A run may be over its time so long before the whole sandbox host is killed',
    }),
    PYTHON_SANDBOX_RECYCLE_RUNS: integer({
      default: 50_000,
      min: 1,
      help: 'Runs after which the sandbox host is replaced by a fresh one',
    }),
    PYTHON_SANDBOX_RECYCLE_RSS_MB: integer({
      default: 2_048,
      min: 128,
      help: 'Resident memory in MiB at which the sandbox host is replaced',
    }),
  },
  {
    check: ({ PYTHON_SANDBOX_MEMORY_BUDGET_MB: budget, WASI_MEMORY_LIMIT_MB: limit, ...paths }) => [
      ...(budget !== 0 && budget < limit
        ? [{ key: 'PYTHON_SANDBOX_MEMORY_BUDGET_MB', message: `must hold one run (${limit}) or be 0` }]
        : []),
      ...(paths.PYTHON_WASI_STDLIB_PATH && !paths.PYTHON_WASI_WASM_PATH
        ? [
            {
              key: 'PYTHON_WASI_STDLIB_PATH',
              message: 'needs PYTHON_WASI_WASM_PATH: the packaged module embeds its own',
            },
          ]
        : []),
    ],
  },
);
export type PythonSandboxConfig = SettingsOf<typeof pythonSandboxConfig.table>;
