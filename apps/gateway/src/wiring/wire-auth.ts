import { readQuotas } from '@toolfleet/contracts/account';
import type { FleetFile } from '@toolfleet/fleet-file';
import type { ServiceHost } from '@toolfleet/service';
import type { Brokers } from './brokers.js';
import type { GatewayConfig } from '../gateway.config.js';
import {
  ApiKeys,
  LOCAL_OPERATOR,
  makeAuthenticate,
  CredentialStatus,
  CredentialWatch,
  HeldRevocations,
  PeopleRoles,
  refuseClients,
  RequestLimits,
  Projects,
  RedisKeyLimits,
  Rejections,
  RegisterAuth,
  SignedTokens,
  UserSessions,
  VerifiedCache,
  withTiers,
} from '@toolfleet/access';
import { jwtComponent } from './jwt-component.js';

/** Everything that turns a credential into a principal, limits its requests and notices its revocation. */
export type Auth = ReturnType<typeof wireAuth>;

/** Builds the ways to sign in that the configuration names; `authenticate` tries them in one place. */
export function wireAuth(
  settings: GatewayConfig,
  host: ServiceHost,
  { redis, nats }: Pick<Brokers, 'redis' | 'nats'>,
  file: FleetFile,
) {
  const { clock } = host;
  const longestCallMs = Math.max(settings.GATEWAY_ASYNC_TIMEOUT_MS, settings.GATEWAY_CALL_TIMEOUT_MS);
  const tokens = new SignedTokens(settings.GATEWAY_TOKEN_SECRET, clock, longestCallMs);
  host.onSecretChange('GATEWAY_TOKEN_SECRET', (secret) => tokens.rotate(secret));
  const isSignIn = file.sign_in.issuer !== undefined;
  const store = new HeldRevocations(redis, nats, clock, host.logger, readQuotas(settings.TENANT_QUOTAS).keys);
  const people = isSignIn ? new PeopleRoles(redis, nats, file.roles, host.logger) : undefined;
  const keys = new ApiKeys(
    store,
    {
      pepper: settings.API_KEY_PEPPER,
      environment: keyEnvironment(settings.ENVIRONMENT),
      localTenant: settings.TOOLFLEET_LOCAL,
      roles: file.roles,
      people,
    },
    clock,
  );
  const jwt = jwtComponent(settings, host, file.token_types);
  const sessions = isSignIn ? new UserSessions(nats, clock) : undefined;
  const status = new CredentialStatus({ keys, sessions, hasAdminKey: settings.GATEWAY_ADMIN_KEY !== undefined, clock });
  const rejections = new Rejections(host.metrics, host.logger, clock);
  const verify = makeAuthenticate({
    status,
    jwt: jwt?.jwt,
    keys,
    sessions,
    tokens,
    cache: new VerifiedCache(clock),
    roles: file.roles,
    local: settings.TOOLFLEET_LOCAL,
    devKey: settings.TOOLFLEET_DEV_API_KEY,
    adminKey: settings.GATEWAY_ADMIN_KEY,
    anonymous: settings.GATEWAY_SKIP_AUTH ? LOCAL_OPERATOR : undefined,
  });
  const authenticate = rejections.counted(refuseClients(verify));
  const keyLimits = new RedisKeyLimits(redis, clock);
  const tiers = withTiers(file.rate_limits.tiers);
  const components = [store.asComponent(), people?.asComponent(), jwt?.component].filter((part) => part !== undefined);
  return {
    authenticate,
    /** The same for `/mcp` and OAuth clients. */
    authenticateMcp: rejections.counted(verify),
    /** Counts the requests that are rejected before they become calls. */
    rejections,
    keys,
    people,
    /** Tokens this gateway signs itself: delegation and MCP request state. */
    tokens,
    /** Whether the credential of accepted work may still be used. */
    status,
    /** The same for open streams. */
    watch: new CredentialWatch(status, clock),
    limits: new RequestLimits(keyLimits, tiers, () => rejections.count('key_limit')),
    /** Counts requests of other things than keys. */
    keyLimits,
    registerAuth: new RegisterAuth(authenticate, settings.MCP_REGISTER_TOKEN),
    /** Which project a call works on. */
    projects: new Projects(new Map(Object.entries(file.default_projects))),
    components,
  };
}

/** The part of an API key that names its environment. */
const keyEnvironment = (environment: string): string =>
  environment
    .replace(/[^A-Za-z0-9]/g, '')
    .slice(0, 8)
    .toLowerCase() || 'prod';
