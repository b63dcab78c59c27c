import {
  DATABASE_KEYS,
  defineConfig,
  EGRESS_KEYS,
  egressFaults,
  FLEET_FILE_KEYS,
  hostList,
  keyRingFaults,
  NATS_KEYS,
  REGISTRY_SECRET_KEY,
  TENANT_QUOTAS,
  secret,
  type SettingsOf,
} from '@toolfleet/service';

/** All environment variables of the service `identity`. */
export const identityConfig = defineConfig(
  'identity',
  {
    ...NATS_KEYS,
    TENANT_QUOTAS,
    ...FLEET_FILE_KEYS,
    ...EGRESS_KEYS,
    ...DATABASE_KEYS,
    OIDC_CLIENT_SECRET: secret({
      optional: true,
      help: 'Secret of this fleet at the OpenID provider of `sign_in`; unset: a public client with PKCE only',
    }),
    REGISTRY_SECRET_KEY,
    IDENTITY_ALLOWED_DOMAINS: hostList({
      default: [],
      help: 'Hosts of authorization servers: host, *.host, host:port, http://host; * needs EGRESS_ALLOW_ANY_HOST',
    }),
    GATEWAY_TOKEN_SECRET: secret({
      minLength: 32,
      help: 'Verifies the tokens of calls that executors send; must equal that of the gateways',
    }),
    IDENTITY_SECRET_KEYS: secret({
      help: 'Keys that seal tokens of users: <id>:<key of at least 32 characters>, separated by commas; the first seals, all open',
    }),
  },
  {
    check: (settings) => [
      ...keyRingFaults('IDENTITY_SECRET_KEYS', settings.IDENTITY_SECRET_KEYS),
      ...egressFaults(settings, 'IDENTITY_ALLOWED_DOMAINS'),
    ],
  },
);
export type IdentityConfig = SettingsOf<(typeof identityConfig)['table']>;
