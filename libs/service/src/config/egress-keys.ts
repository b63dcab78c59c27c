import type { ConfigFault, ConfigTable, SettingsOf, SharedSettings } from './define-config.js';
import { boolean, list } from './field.js';
import { isDevelopment } from './is-development.js';

/** Keys of services that call servers outside (libs/egress); spread into their table, with `egressFaults` as its check. */
export const EGRESS_KEYS = {
  EGRESS_ALLOW_ANY_HOST: boolean({ default: false, help: 'Permits * in an allowlist; refused outside development' }),
  EGRESS_ALLOWED_ENDPOINTS: list({
    default: [],
    help: 'Exact origins (scheme://host:port) that may be local addresses, e.g. a server on this machine',
  }),
  EGRESS_DENIED_CIDRS: list({ default: [], help: 'Pod, service and node ranges that nothing may reach' }),
} satisfies ConfigTable;

/** An allowlist of every host is for development only, whatever else the operator says. */
export function egressFaults(
  settings: Pick<SettingsOf<typeof EGRESS_KEYS>, 'EGRESS_ALLOW_ANY_HOST'> & Pick<SharedSettings, 'ENVIRONMENT'>,
): ConfigFault[] {
  if (!settings.EGRESS_ALLOW_ANY_HOST || isDevelopment(settings.ENVIRONMENT)) return [];
  return [{ key: 'EGRESS_ALLOW_ANY_HOST', message: 'is for ENVIRONMENT=development, dev or test only' }];
}
