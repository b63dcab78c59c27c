import { checkAddressRange, checkAllowEntry, checkEndpoint } from '@toolfleet/egress/rules';
import type { ConfigFault, ConfigTable, SettingsOf, SharedSettings } from './define-config.js';
import { boolean, list, type Field } from './field.js';
import { isDevelopment } from './is-development.js';

/** Keys of services that call servers outside (libs/egress); spread into their table, with `egressFaults` as its check. */
export const EGRESS_KEYS = {
  EGRESS_ALLOW_ANY_HOST: boolean({ default: false, help: 'Permits * in an allowlist; refused outside development' }),
  EGRESS_ALLOWED_ENDPOINTS: list({
    default: [],
    item: checkEndpoint,
    help: 'Exact origins (scheme://host:port) that may be local addresses, e.g. a server on this machine',
  }),
  EGRESS_DENIED_CIDRS: list({
    default: [],
    item: checkAddressRange,
    help: 'Pod, service and node ranges that nothing may reach',
  }),
} satisfies ConfigTable;

/** An allowlist of hosts: `host`, `*.host`, `host:port`, `http://host`, or `*` where `EGRESS_ALLOW_ANY_HOST` permits it. */
export function hostList(options: { default: readonly string[]; help: string }): Field<readonly string[]> {
  return list({ ...options, item: checkAllowEntry });
}

/**
 * Rules over the egress keys: every host is for development only, and needs its flag.
 * @param allowlists keys of the service's own allowlists
 */
export function egressFaults<K extends string = never>(
  settings: Pick<SettingsOf<typeof EGRESS_KEYS>, 'EGRESS_ALLOW_ANY_HOST'> &
    Pick<SharedSettings, 'ENVIRONMENT'> &
    Readonly<Record<NoInfer<K>, readonly string[]>>,
  ...allowlists: K[]
): ConfigFault[] {
  const development = 'ENVIRONMENT=development, dev or test';
  if (settings.EGRESS_ALLOW_ANY_HOST && !isDevelopment(settings.ENVIRONMENT)) {
    const remedy = `unset it and list the hosts, or set ${development}`;
    return [{ key: 'EGRESS_ALLOW_ANY_HOST', message: `is for ${development} only`, remedy }];
  }
  if (settings.EGRESS_ALLOW_ANY_HOST) return [];
  return allowlists
    .filter((key) => settings[key].some((entry) => entry.includes('*') && !entry.includes('*.')))
    .map((key) => ({
      key,
      message: 'permits every host, which needs EGRESS_ALLOW_ANY_HOST=true',
      remedy: `list the hosts, or set EGRESS_ALLOW_ANY_HOST=true together with ${development}`,
    }));
}
