import type { ServiceHost, LifecycleComponent } from '@toolfleet/service';
import type { GatewayConfig } from '../gateway.config.js';
import { ApiKeys, type KeyStore } from './api-keys.js';
import { LOCAL_OPERATOR, makeAuthenticate, type Authenticate } from './authenticate.js';
import { CredentialStatus } from './credential-status.js';
import { jwtPart } from './jwt-component.js';
import { SignedTokens } from './signed-tokens.js';
import { VerifiedCache } from './verified-cache.js';

/** Who calls: everything that turns a credential into a principal. */
export interface AuthParts {
  /** Tokens this gateway signs itself: delegation, request state. */
  tokens: SignedTokens;
  keys: ApiKeys;
  authenticate: Authenticate;
  /** Whether credentials of accepted work may still be used. */
  status: CredentialStatus;
  /** What has to be started for it. */
  parts: LifecycleComponent[];
}

/** The ways to sign in that the configuration names, checked in one function. */
export function authParts(settings: GatewayConfig, host: ServiceHost, keyStore: KeyStore): AuthParts {
  const { clock } = host;
  const longestCallMs = Math.max(settings.GATEWAY_ASYNC_TIMEOUT_MS, settings.GATEWAY_CALL_TIMEOUT_MS);
  const tokens = new SignedTokens(settings.GATEWAY_TOKEN_SECRET, clock, longestCallMs);
  host.onSecretChange('GATEWAY_TOKEN_SECRET', (secret) => tokens.rotate(secret));
  const keys = new ApiKeys(
    keyStore,
    {
      pepper: settings.API_KEY_PEPPER,
      environment: environmentOf(settings),
      localTenant: settings.TOOLFLEET_LOCAL,
    },
    clock,
  );
  const jwt = jwtPart(settings, host);
  const status = new CredentialStatus({ keys, hasAdminKey: settings.GATEWAY_ADMIN_KEY !== undefined, clock });
  const authenticate = makeAuthenticate({
    status,
    ...(jwt ? { jwt: jwt.jwt } : {}),
    keys,
    tokens,
    cache: new VerifiedCache(clock),
    local: settings.TOOLFLEET_LOCAL,
    ...(settings.TOOLFLEET_DEV_API_KEY === undefined ? {} : { devKey: settings.TOOLFLEET_DEV_API_KEY }),
    ...(settings.GATEWAY_ADMIN_KEY === undefined ? {} : { adminKey: settings.GATEWAY_ADMIN_KEY }),
    ...(settings.GATEWAY_SKIP_AUTH ? { anonymous: LOCAL_OPERATOR } : {}),
  });
  return { tokens, keys, authenticate, status, parts: jwt ? [jwt.part] : [] };
}

/** The part of an API key that names its environment. */
const environmentOf = (settings: GatewayConfig): string =>
  settings.ENVIRONMENT.replace(/[^A-Za-z0-9]/g, '')
    .slice(0, 8)
    .toLowerCase() || 'prod';
