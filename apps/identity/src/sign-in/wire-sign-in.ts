import { egressFetch } from '@toolfleet/egress';
import type { SignInSettings } from '@toolfleet/fleet-file';
import type { UserChanged } from '@toolfleet/contracts/identity';
import type { ClientGetReply, IdentityHttpReply, SignOut, SignOutReply } from '@toolfleet/contracts/sign-in';
import type { KeyRing, LifecycleComponent, ServiceHost } from '@toolfleet/service';
import { guardedEgress } from '@toolfleet/service/egress';
import type { IdentityConfig } from '../identity.config.js';
import type { IdentityDb } from '../identity-tables.js';
import type { SignInClient } from '../authorization-servers.js';
import type { GrantRefresh } from '../grant-refresh.js';
import type { SessionStore } from '../session-store.js';
import type { SignInTokens } from '../sign-in-tokens.js';
import { AuthorizationServer } from '../oauth/authorization-server.js';
import { OAuthRecords } from '../oauth/oauth-records.js';
import { CompanyProvider, type GuardedFetch } from './company-provider.js';
import { ConsoleSignIn } from './console-sign-in.js';
import { ProviderAsks } from './provider-asks.js';
import { SignInAttempts, UsedOnce } from './sign-in-attempts.js';
import { errorPage, json, type WebRequest } from './web.js';

const FETCH_MS = 10_000;
const MAX_BYTES = 1_000_000;
const NO_SIGN_IN = 'This fleet has no sign-in: its configuration file has no section sign_in. Use an API key.';

/** Answers of the service below `/auth/` and `/oauth/`; nothing without the section `sign_in`. */
export class SignInPages {
  constructor(
    private readonly console?: ConsoleSignIn,
    private readonly oauth?: AuthorizationServer,
  ) {}

  async handle(request: WebRequest): Promise<IdentityHttpReply> {
    try {
      const found = (await this.console?.handle(request)) ?? (await this.oauth?.handle(request));
      const error_description = this.console ? 'The sign-in has no such page' : NO_SIGN_IN;
      return found ?? json(404, { error: 'not_found', error_description });
    } catch (error) {
      return errorPage(error);
    }
  }

  /** The session behind an access token of an OAuth client. */
  async findClient(token: string): Promise<ClientGetReply> {
    return this.oauth ? this.oauth.find(token) : {};
  }

  async signOut(request: SignOut): Promise<SignOutReply> {
    return this.console ? this.console.signOut(request) : {};
  }
}

/** The company's provider, and this fleet as its client. */
type Company = NonNullable<ReturnType<typeof wireCompany>>;

/** @returns undefined without the section `sign_in` */
export function wireCompany(settings: IdentityConfig, section: SignInSettings, host: ServiceHost) {
  const { clock } = host;
  const { issuer, client_id: clientId } = section;
  if (issuer === undefined || clientId === undefined) return undefined;
  // Operators name the provider, and it names its endpoints; private addresses need EGRESS_ALLOWED_ENDPOINTS all the same.
  const egress = guardedEgress(settings, host, 'OpenID provider', { allowlist: ['*'], allowAnyHost: true });
  const timeouts = { headersMs: FETCH_MS, bodyIdleMs: FETCH_MS, totalMs: FETCH_MS };
  const fetch: GuardedFetch = egressFetch(egress.client, { timeouts, maxBytes: MAX_BYTES });
  let secret = settings.OIDC_CLIENT_SECRET;
  host.onSecretChange('OIDC_CLIENT_SECRET', (changed) => (secret = changed));
  const client: SignInClient = { issuer, clientId, secret: () => secret, fetch };
  const provider = new CompanyProvider({ ...section, issuer, client_id: clientId }, client.secret, fetch, clock);
  return { client, provider, fetch, components: egress.components };
}

interface SignInWiringDeps {
  company: Company | undefined;
  db: IdentityDb;
  keys: KeyRing;
  sessions: SessionStore;
  keptTokens: SignInTokens;
  refresh: GrantRefresh;
  /** Publishes the roles of a user. */
  announce(changed: UserChanged): void;
}

/** Builds the sign-in of people: the pages, and the components that they need. */
export function wireSignIn(
  settings: SignInSettings,
  { clock, logger }: ServiceHost,
  { company, db, keys, sessions, keptTokens, refresh, announce }: SignInWiringDeps,
): { pages: SignInPages; stores: readonly (UsedOnce | OAuthRecords)[]; components: LifecycleComponent[] } {
  const used = new UsedOnce(db, clock);
  const records = new OAuthRecords(db, keys, clock);
  const stores = [used, records];
  if (!company) return { pages: new SignInPages(), stores, components: [] };
  const { provider, fetch } = company;
  const asks = new ProviderAsks({
    settings,
    provider,
    sessions,
    signIns: keptTokens,
    refresh,
    clock,
    logger,
    announce,
  });
  const attempts = new SignInAttempts(keys, used, clock);
  const shared = { settings, sessions, asks, keys, clock, logger };
  const console = new ConsoleSignIn({ ...shared, provider, attempts, used, keptTokens });
  const oauth = new AuthorizationServer({ ...shared, records, signIn: console, tokens: keptTokens, fetch });
  return { pages: new SignInPages(console, oauth), stores, components: [...company.components, asks] };
}
