import { readQuotas } from '@toolfleet/contracts/account';
import { SignedTokens } from '@toolfleet/access/signed-tokens';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { usesSignIn } from '@toolfleet/contracts/user-auth';
import { DAY_MS, databaseSettings, migrate, serviceDialect } from '@toolfleet/database';
import { HOURLY, Rounds } from '@toolfleet/resilience';
import {
  fleetFileReloader,
  KeyRing,
  loadFleetFile,
  secretOpener,
  VariableExpander,
  type LifecycleComponent,
  type ServiceHost,
} from '@toolfleet/service';
import { guardedEgress } from '@toolfleet/service/egress';
import { connectNats, natsEndpoints } from '@toolfleet/service/nats';
import { egressFetch } from '@toolfleet/egress';
import { inUpstreamSpan } from '@toolfleet/telemetry';
import { Kysely } from 'kysely';
import { IDENTITY_MIGRATIONS, type IdentityDb } from './identity-tables.js';
import { identityConfig, type IdentityConfig } from './identity.config.js';
import { AttemptStore } from './attempt-store.js';
import { AuthorizationServers } from './authorization-servers.js';
import { ExchangedGrants } from './exchanged-grants.js';
import { GrantRefresh } from './grant-refresh.js';
import { OAuthClient } from './oauth-client.js';
import { SignInTokens } from './sign-in-tokens.js';
import { grantEndpoints, identityEndpoints } from './identity.endpoint.js';
import { IdentityRoutes } from './identity.routes.js';
import { UserGrantStore, SIGN_IN } from './user-grant-store.js';
import { Grants } from './grants.js';
import { KeyChange } from './reseal.js';
import { StoreLimit } from './store-limit.js';
import { UpstreamRevocation } from './upstream-revocation.js';
import { SessionStore } from './session-store.js';
import { signInEndpoints } from './sign-in/sign-in.endpoint.js';
import { wireCompany, wireSignIn } from './sign-in/wire-sign-in.js';

const MAX_TOKEN_ANSWER_BYTES = 256 * 1024;
/** Shorter than the right to refresh a grant. */
const TOKEN_TIMEOUT_MS = 15_000;

/** Opens values of sources (`mcp/crm@acme`): variables of this process, and literals that the registry sealed. */
function secretsOfSources({
  REGISTRY_SECRET_KEY: secretKey,
}: IdentityConfig): (value: string, source: string) => string {
  const expander = new VariableExpander(identityConfig.ownKeys);
  const openers = {
    mcp: secretOpener({ kind: 'mcp', expander, secretKey }),
    openapi: secretOpener({ kind: 'openapi', expander, secretKey }),
  };
  return (value, source) => {
    // The tokens of sign-ins belong to no source, and their settings have no secrets.
    if (source.startsWith(SIGN_IN)) return value;
    const slash = source.indexOf('/');
    return openers[source.slice(0, slash) as keyof typeof openers](value, source.slice(slash + 1));
  };
}

/** The components of the service in start order: broker, store, removal of ended rows, and last the endpoint. */
export function identityComponents(settings: IdentityConfig, host: ServiceHost): LifecycleComponent[] {
  const { clock, logger } = host;
  const nats = connectNats(settings, host);
  const db: IdentityDb = new Kysely({ dialect: serviceDialect('identity', settings) });
  const keys = new KeyRing(settings.IDENTITY_SECRET_KEYS);
  const quotas = readQuotas(settings.TENANT_QUOTAS);
  const sessions = new SessionStore(db, quotas.sessions);
  const file = loadFleetFile(settings);
  const store = new UserGrantStore(db, keys);
  const { issuer, keep_tokens: keepsTokens = false } = file.sign_in;
  const signIns = new SignInTokens(store, clock, issuer, keepsTokens);
  const company = wireCompany(settings, file.sign_in, host);
  const tokens = new SignedTokens(settings.GATEWAY_TOKEN_SECRET, clock);
  host.onSecretChange('GATEWAY_TOKEN_SECRET', (secret) => tokens.rotate(secret));
  const egress = guardedEgress(settings, host, 'egress of grants', {
    trace: inUpstreamSpan,
    allowlist: settings.IDENTITY_ALLOWED_DOMAINS,
    allowlistKey: 'IDENTITY_ALLOWED_DOMAINS',
    allowAnyHost: settings.EGRESS_ALLOW_ANY_HOST,
  });
  const limits = { maxBytes: MAX_TOKEN_ANSWER_BYTES, timeouts: { totalMs: TOKEN_TIMEOUT_MS } };
  const servers = new AuthorizationServers({
    fetch: egressFetch(egress.client, limits),
    open: secretsOfSources(settings),
    signIn: company?.client,
    clock,
  });
  const client = new OAuthClient(servers);
  const upstream = new UpstreamRevocation({ store, client, clock, logger });
  const exchanged = new ExchangedGrants({ store, sessions, signIns, client, clock });
  const refresh: GrantRefresh = new GrantRefresh({
    store,
    renew: (grant) =>
      usesSignIn(grant)
        ? exchanged.renew(grant, refresh)
        : client.refresh(grant.source, grant.auth, grant.secrets.refresh_token!),
    abandon: (grant) => upstream.begin([grant]),
    clock,
  });
  const publish = (subject: string, changed: object) => {
    if (nats.connected) nats.publish(subject, changed);
  };
  const signIn = wireSignIn(file.sign_in, host, {
    company,
    db,
    keys,
    sessions,
    keptTokens: signIns,
    refresh,
    announce: (changed) => publish(SUBJECTS.userChanged, changed),
  });
  const attempts = new AttemptStore(db, keys, quotas.connect_attempts);
  const grants = new Grants({
    store,
    attempts,
    client,
    refresh,
    exchanged,
    upstream,
    tokens,
    clock,
    announce: (changed) => publish(SUBJECTS.grantChanged, changed),
  });
  const change = new KeyChange(db, keys, clock, settings.STORE_TIMEOUT_MS);
  const limit = new StoreLimit(clock, settings.STORE_TIMEOUT_MS);
  const withEnds = [sessions, signIns, attempts, ...signIn.stores];
  const controllers = [
    IdentityRoutes,
    ...identityEndpoints({ sessions, grants, signIns, limit }, host),
    ...grantEndpoints({ grants, limit }),
    ...signInEndpoints(signIn.pages, sessions, host),
  ];
  return [
    nats.asComponent(),
    {
      name: 'store of sessions and grants',
      settings: databaseSettings(settings),
      start: async () => {
        await migrate(db, IDENTITY_MIGRATIONS);
        // The embedded store has one replica: who had a right before is gone.
        if (settings.DATABASE_URL === undefined) await store.endLeases(clock.now());
      },
      stop: () => db.destroy(),
    },
    // Rows stay for a day after they ended.
    new Rounds({
      name: 'ended sessions',
      clock,
      ...HOURLY,
      work: () => Promise.all(withEnds.map((one) => one.forgetEnded(clock.now() - DAY_MS))),
      onFailure: (error) => logger.warn({ error }, 'ended sessions cannot be deleted; they stay'),
    }),
    fleetFileReloader(settings, file, host),
    ...signIn.components,
    ...egress.components,
    ...natsEndpoints(nats, host, controllers, [sessions, limit, change]),
  ];
}
