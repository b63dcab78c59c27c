import { loadFleetFile, type LifecycleComponent, type ServiceHost } from '@toolfleet/service';
import { isJsonObject } from '@toolfleet/contracts';
import type { Brokers } from '../brokers.js';
import type { GatewayConfig } from '../gateway.config.js';
import { ApiKeys } from './api-keys.js';
import { LOCAL_OPERATOR, makeAuthenticate } from './authenticate.js';
import { CredentialStatus, CredentialWatch } from './credential-status.js';
import { jwtComponent } from './jwt-component.js';
import { readTiers, RequestLimits } from './key-limits.js';
import { Projects, readDefaultProjects } from './projects.js';
import { RedisKeyLimits } from './redis-key-limits.js';
import { RedisKeyStore } from './redis-key-store.js';
import { RegisterAuth } from './register-auth.js';
import { SignedTokens } from './signed-tokens.js';
import { VerifiedCache } from './verified-cache.js';

/** Everything that turns a credential into a principal, limits its requests and notices its revocation. */
export type Auth = ReturnType<typeof wireAuth>;

/** Builds the ways to sign in that the configuration names; `authenticate` tries them in one place. */
export function wireAuth(settings: GatewayConfig, host: ServiceHost, redis: Brokers['redis']) {
  const { clock } = host;
  const longestCallMs = Math.max(settings.GATEWAY_ASYNC_TIMEOUT_MS, settings.GATEWAY_CALL_TIMEOUT_MS);
  const tokens = new SignedTokens(settings.GATEWAY_TOKEN_SECRET, clock, longestCallMs);
  host.onSecretChange('GATEWAY_TOKEN_SECRET', (secret) => tokens.rotate(secret));
  const keys = new ApiKeys(
    new RedisKeyStore(redis),
    {
      pepper: settings.API_KEY_PEPPER,
      environment: keyEnvironment(settings.ENVIRONMENT),
      localTenant: settings.TOOLFLEET_LOCAL,
    },
    clock,
  );
  const jwt = jwtComponent(settings, host);
  const status = new CredentialStatus({ keys, hasAdminKey: settings.GATEWAY_ADMIN_KEY !== undefined, clock });
  const authenticate = makeAuthenticate({
    status,
    jwt: jwt?.jwt,
    keys,
    tokens,
    cache: new VerifiedCache(clock),
    local: settings.TOOLFLEET_LOCAL,
    devKey: settings.TOOLFLEET_DEV_API_KEY,
    adminKey: settings.GATEWAY_ADMIN_KEY,
    anonymous: settings.GATEWAY_SKIP_AUTH ? LOCAL_OPERATOR : undefined,
  });
  const { rate_limits: rateLimits, default_projects: defaultProjects } = loadFleetFile(settings);
  const tiers = readTiers(isJsonObject(rateLimits) ? rateLimits.tiers : undefined);
  const components: LifecycleComponent[] = jwt ? [jwt.component] : [];
  return {
    authenticate,
    keys,
    /** Tokens this gateway signs itself: delegation and MCP request state. */
    tokens,
    /** Whether the credential of accepted work may still be used. */
    status,
    /** The same for open streams. */
    watch: new CredentialWatch(status, clock),
    limits: new RequestLimits(new RedisKeyLimits(redis, clock), tiers),
    registerAuth: new RegisterAuth(authenticate, settings.MCP_REGISTER_TOKEN),
    /** Which project a call works on. */
    projects: new Projects(readDefaultProjects(defaultProjects)),
    components,
  };
}

/** The part of an API key that names its environment. */
const keyEnvironment = (environment: string): string =>
  environment
    .replace(/[^A-Za-z0-9]/g, '')
    .slice(0, 8)
    .toLowerCase() || 'prod';
