import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { TestFleet } from './test-fleet.js';

const PROGRAM = fileURLToPath(new URL('../../tools/fleetctl/bin/fleetctl.mjs', import.meta.url));

/** Runs the program `fleetctl` against a fleet, by default with the administrator's key, and returns its exit code and streams. */
export function fleetctl(
  fleet: TestFleet,
  argv: string[],
  key = fleet.adminKey,
): Promise<{ code: number; out: Buffer; error: string }> {
  const env = { ...process.env, TOOLFLEET_URL: fleet.url(), TOOLFLEET_API_KEY: key };
  const options = { env, cwd: fleet.folder, encoding: 'buffer', timeout: 60_000 } as const;
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [PROGRAM, ...argv], options, (_error, out, error) =>
      resolve({ code: child.exitCode ?? -1, out, error: error.toString() }),
    );
  });
}
