import { toToolError } from '@toolfleet/contracts';
import type { Observer } from '../call.js';
import type { EnginePorts } from '../ports.js';
import { recordOf } from './audit.js';

/** Figures of every call, refused and cached ones included. */
export function meter(ports: Pick<EnginePorts, 'meter' | 'clock'>): Observer {
  return async (seen, next) => {
    try {
      const result = await next(seen);
      ports.meter.finished(recordOf(seen, result, ports.clock.monotonic()));
      return result;
    } catch (thrown) {
      ports.meter.finished(recordOf(seen, toToolError(thrown), ports.clock.monotonic()));
      throw thrown;
    }
  };
}
