import { SystemClock } from '@toolfleet/base';
import type { PackageWheel } from '../src/packages/python-package.js';
import { Sandbox } from '../src/sandbox.js';
import type { SandboxScripts } from './bundle.js';
import { INTERPRETER } from './interpreter.js';

/** Memory limit of every run in specs, in MiB, so that programs that allocate memory end soon. */
export const LIMIT_MB = 128;

/**
 * A sandbox of bundled scripts that never replaces its host and does not warm up.
 * @param more.programs programs that call tools, in addition to `threads`; default none
 */
export function newSandbox(
  scripts: SandboxScripts,
  threads: number,
  more: { programs?: number; packages?: readonly PackageWheel[]; onEvent?: (event: string) => void } = {},
): Sandbox {
  return new Sandbox({
    clock: new SystemClock(),
    hostScript: scripts.hostScript,
    graceMs: 2_000,
    recycleRuns: 1_000_000,
    recycleRssMb: 100_000,
    onEvent: more.onEvent,
    settings: {
      interpreter: INTERPRETER,
      packages: more.packages,
      threadScript: scripts.threadScript,
      threads,
      programs: more.programs ?? 0,
      outputCap: 1024 * 1024,
      memoryLimitMb: LIMIT_MB,
      memoryBudgetMb: threads * LIMIT_MB,
      warmUpMs: 0,
    },
  });
}
