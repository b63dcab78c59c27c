/** `@toolfleet/service/egress`: the way out of the fleet. A separate entry, so that services without one do not load the HTTP client. */
import { EgressClient, type EgressOptions } from '@toolfleet/egress';
import { AllowedEndpoints } from './allowed-endpoints.js';
import type { EGRESS_KEYS, SettingsOf } from './config/define-config.js';
import type { LifecycleComponent, ServiceHost } from './lifecycle.js';
import { VERSION } from './start-service.js';

type EgressSettings = Omit<SettingsOf<typeof EGRESS_KEYS>, 'EGRESS_ALLOW_ANY_HOST'>;

/** A client that reaches the hosts of `allowlist`, with the components that start and close it. @param name shown in logs */
export function guardedEgress(
  settings: EgressSettings,
  host: ServiceHost,
  name: string,
  options: EgressOptions,
): { client: EgressClient; allowedEndpoints: AllowedEndpoints; components: LifecycleComponent[] } {
  const allowedEndpoints = new AllowedEndpoints(settings, host);
  const client = egressClient(settings, host, { allowedEndpoints, ...options });
  return { client, allowedEndpoints, components: [allowedEndpoints, { name, stop: () => client.close() }] };
}

/** A client that counts what it refuses, and says whose requests it sends. Its caller closes it. */
export function egressClient(settings: EgressSettings, host: ServiceHost, options: EgressOptions): EgressClient {
  return new EgressClient({
    deniedCidrs: settings.EGRESS_DENIED_CIDRS,
    clock: host.clock,
    onBlocked: (layer, reason) => host.metrics.egressBlocked.inc({ layer, reason }),
    userAgent: `toolfleet/${VERSION}`,
    ...options,
  });
}
