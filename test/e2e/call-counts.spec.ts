import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const PROGRAM = fileURLToPath(new URL('../load/counts.bench.mjs', import.meta.url));

/** A path of `npm run bench -- counts`. */
interface Counted {
  path: string;
  /** Of test/load/call-ceilings.mjs. */
  ceiling?: number;
  invocations: number;
  layers: Record<string, number>;
}

/** Counts the paths that have a ceiling, in one process. */
async function countPaths(): Promise<Counted[]> {
  const env = { ...process.env, BENCH_ONE_PROCESS: '1', COUNT_CEILED: '1', COUNT_WARM: '300' };
  const counting = fork(PROGRAM, { env, execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  try {
    const [rows] = (await once(counting, 'message')) as [Counted[]];
    return rows;
  } finally {
    if (counting.exitCode === null) await once(counting, 'exit');
  }
}

// The count hardly depends on the load of the machine. A change that adds work to each call raises its ceiling, and says why.
test('calls run no more functions than their ceilings allow', async () => {
  const rows = await countPaths();
  expect(rows.map(({ path }) => path)).toContain('MCP over HTTP, mcp');
  for (const { path, ceiling = 0, invocations, layers } of rows)
    expect(invocations, `${path}: ${JSON.stringify(layers)}`).toBeLessThanOrEqual(ceiling);
});
