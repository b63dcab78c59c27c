/** `@toolfleet/service/egress`: the way out of the fleet. A separate entry, so that services without one do not load the HTTP client. */
import { EgressClient, type EgressOptions } from '@toolfleet/egress';
import { AllowedEndpoints } from './allowed-endpoints.js';
import type { EGRESS_KEYS, SettingsOf } from './config/define-config.js';
import type { LifecycleComponent, ServiceHost } from './lifecycle.js';
import { VERSION } from './start-service.js';

/** A client that reaches the hosts of `allowlist`, with the components that start and close it. @param name shown in logs */
export function guardedEgress(
  settings: Omit<SettingsOf<typeof EGRESS_KEYS>, 'EGRESS_ALLOW_ANY_HOST'>,
  host: ServiceHost,
  name: string,
  options: EgressOptions,
): { client: EgressClient; allowedEndpoints: AllowedEndpoints; components: LifecycleComponent[] } {
  const allowedEndpoints = new AllowedEndpoints(settings, host);
  const client = new EgressClient({
    allowedEndpoints,
    deniedCidrs: settings.EGRESS_DENIED_CIDRS,
    clock: host.clock,
    onBlocked: (layer, reason) => host.metrics.egressBlocked.inc({ layer, reason }),
    userAgent: `toolfleet/${VERSION}`,
    ...options,
  });
  return { client, allowedEndpoints, components: [allowedEndpoints, { name, stop: () => client.close() }] };
}
