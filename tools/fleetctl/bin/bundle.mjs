import { readFileSync, statSync } from 'node:fs';

/** The program as `tools/release/packages.mjs` bundles it in this clone. */
export const bundle = new URL('../../../build/fleetctl/', import.meta.url);

/** Whether the bundle has the latest output of tsc: `built.json` has the time of each file that it depends on. */
export function isFresh() {
  try {
    const built = JSON.parse(readFileSync(new URL('built.json', bundle), 'utf8'));
    return Object.entries(built).every(([file, at]) => statSync(new URL(file, bundle)).mtimeMs === at);
  } catch {
    return false;
  }
}
