import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ServiceName } from '../../apps/standalone/src/standalone.config.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Folder of the bundles that `npm test` makes: they start in half the time. */
const BUNDLES = process.env['TEST_FLEET_SERVICES'];

/**
 * The program of a service: its bundle, or what `tsc -b` built where there are no bundles.
 * @param build root of another release's working tree
 */
export function programOf(name: ServiceName | 'standalone', build = ROOT): string {
  return BUNDLES && build === ROOT ? join(BUNDLES, `${name}.js`) : join(build, 'apps', name, 'dist/main.js');
}
