/** A fleet with limits that are evaluated on every call and never reached, for one bench. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../tools/local/child-process.mjs';
import { startFleet } from '../../tools/local/fleet.mjs';

const NEVER = 1_000_000_000;
const LIMITED = ['json_process', 'text_process', 'get_weather', 'fetch_page'];

/** Environment of such a fleet. */
export const UNLIMITED = {
  CALCULATOR_RATE_LIMIT: String(NEVER),
  PYTHON_EXECUTOR_RATE_LIMIT: String(NEVER),
  BUILTIN_RATE_LIMITS: LIMITED.map((tool) => `${tool}=${NEVER}`).join(','),
  BUILTIN_COSTS_MICRO_USD: 'calculator=1',
  MAX_COST_PER_REQUEST: '1000',
  MAX_TOKENS_PER_REQUEST: String(NEVER),
};

/**
 * Starts a fleet, hands it to `bench` and stops it. Each service has a process of its own, unless BENCH_ONE_PROCESS is set; BENCH_WORKERS is the
 * number of gateways then.
 * `env` is set for its services, `config` is one more file of its configuration.
 */
export async function withFleet(root, bench, { env = {}, config } = {}) {
  const stateDir = mkdtempSync(join(tmpdir(), 'toolfleet-bench-'));
  Object.assign(process.env, UNLIMITED, env, {
    GATEWAY_PORT: String(await freePort()),
    TOOLFLEET_CONFIG: [join(root, 'test/load/fleet.yaml'), config].filter(Boolean).join(','),
  });
  const { fleet, stop } = await startFleet({
    root,
    stateDir,
    together: process.env.BENCH_ONE_PROCESS !== undefined,
    workers: Number(process.env.BENCH_WORKERS ?? 1),
    say: () => {},
    onGivenUp: (error) => console.error(error.message),
  });
  try {
    return await bench(fleet);
  } finally {
    await stop();
    rmSync(stateDir, { recursive: true, force: true });
  }
}
