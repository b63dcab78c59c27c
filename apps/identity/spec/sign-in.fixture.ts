/** The sign-in on an HTTP server of its own, as a gateway would serve it, with a real OpenID provider of a company. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { UserChanged } from '@toolfleet/contracts/identity';
import type { SignOutReply } from '@toolfleet/contracts/sign-in';
import { sqliteDialect } from '@toolfleet/database';
import type { SignInSettings } from '@toolfleet/fleet-file';
import { SystemClock } from '@toolfleet/resilience';
import { KeyRing } from '@toolfleet/service';
import type { FakeClock } from '@toolfleet/testing';
import { CLIENT_ID, CLIENT_SECRET, OpenIdProvider, type Users } from '../../../test/doubles/openid-provider.js';
import { AuthorizationServers } from '../src/authorization-servers.js';
import { GrantRefresh } from '../src/grant-refresh.js';
import { UserGrantStore } from '../src/user-grant-store.js';
import type { IdentityDb } from '../src/identity-tables.js';
import { openIdentityDb } from './identity-db.fixture.js';
import { OAuthClient } from '../src/oauth-client.js';
import { SessionStore } from '../src/session-store.js';
import { SignInTokens } from '../src/sign-in-tokens.js';
import { CompanyProvider, type GuardedFetch } from '../src/sign-in/company-provider.js';
import { ConsoleSignIn } from '../src/sign-in/console-sign-in.js';
import { ProviderAsks } from '../src/sign-in/provider-asks.js';
import { SignInAttempts, UsedOnce } from '../src/sign-in/sign-in-attempts.js';
import { AuthorizationServer } from '../src/oauth/authorization-server.js';
import { OAuthRecords } from '../src/oauth/oauth-records.js';
import { readWebRequest } from '../src/sign-in/web.js';
import { SignInPages } from '../src/sign-in/wire-sign-in.js';

const USERS = {
  alice: { groups: ['platform', 'everyone'], email: 'alice@example.com', email_verified: true },
  bob: { groups: ['everyone'], email: 'bob@example.com', email_verified: false },
  root: { groups: ['fleet'], tenant: 'acme' },
};

export const SECTION: SignInSettings = {
  client_id: CLIENT_ID,
  tenant: 'acme',
  scopes: ['email', 'groups'],
  roles: { platform: ['admin'], fleet: ['operator'] },
};

/** Replicas wait for each other in the time of the machine; rights to refresh end by the time of the spec. */
class MachineTimers extends SystemClock {
  constructor(private readonly wall: FakeClock) {
    super();
  }
  override now(): number {
    return this.wall.now();
  }
}

/** Everything that a sign-in is made of. */
export class SignInFixture {
  private constructor(
    readonly company: OpenIdProvider,
    readonly origin: string,
    readonly sessions: SessionStore,
    readonly used: UsedOnce,
    readonly pages: SignInPages,
    readonly replicas: readonly ProviderAsks[],
    /** Roles of users as they were announced. */
    readonly announced: readonly UserChanged[],
    readonly signIns: SignInTokens,
    /** Claims of the provider's users by name. */
    readonly users: Users,
    private readonly server: Server,
    private readonly db: IdentityDb,
  ) {}

  static async start(
    clock: FakeClock,
    section: Partial<SignInSettings> = {},
    fetch: GuardedFetch = globalThis.fetch,
    features: Parameters<OpenIdProvider['serve']>[1] = {},
  ): Promise<SignInFixture> {
    const users: Users = { ...USERS };
    const company = await OpenIdProvider.start(users);
    const db = await openIdentityDb(sqliteDialect(':memory:'));
    const keys = new KeyRing('k1:an-identity-key-for-tests-0123456789abcdef');
    const sessions = new SessionStore(db);
    const used = new UsedOnce(db, clock);
    const settings = { ...SECTION, issuer: company.issuer, ...section };
    const provider = new CompanyProvider({ ...settings, client_id: CLIENT_ID }, () => CLIENT_SECRET, fetch, clock);
    const attempts = new SignInAttempts(keys, used, clock);
    const logger = { info: () => undefined, warn: () => undefined };
    const records = new OAuthRecords(db, keys, clock);
    const store = new UserGrantStore(db, keys);
    const keptTokens = new SignInTokens(store, clock, company.issuer, false);
    const announced: UserChanged[] = [];
    /** What each replica of the service has for itself. */
    const replica = () => {
      const servers = new AuthorizationServers({
        fetch,
        open: (value) => value,
        signIn: { issuer: company.issuer, clientId: CLIENT_ID, secret: () => CLIENT_SECRET, fetch },
        clock,
      });
      const client = new OAuthClient(servers);
      const refresh = new GrantRefresh({
        store,
        renew: (grant) => client.refresh(grant.source, grant.auth, grant.secrets.refresh_token!),
        clock: new MachineTimers(clock),
      });
      const deps = { settings, provider, sessions, signIns: keptTokens, refresh, clock, logger };
      return new ProviderAsks({ ...deps, announce: (changed) => announced.push(changed) });
    };
    const replicas = [replica(), replica()];
    const asks = replicas[1]!;
    const shared = { settings, sessions, asks, keys, clock, logger };
    const signIn = new ConsoleSignIn({ ...shared, provider, attempts, used, keptTokens });
    const oauth = new AuthorizationServer({ ...shared, records, signIn, tokens: keptTokens, fetch });
    const pages = new SignInPages(signIn, oauth);
    const server = createServer((request, response) => {
      void (async () => {
        let body = '';
        for await (const chunk of request) body += String(chunk);
        const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)]);
        const { url = '/', method = 'GET' } = request;
        const answer = await pages.handle(readWebRequest({ origin, method, url, headers, body }));
        response.writeHead(answer.status, answer.headers.flat());
        response.end(answer.body);
      })();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await company.serve(origin, features);
    return new SignInFixture(
      company,
      origin,
      sessions,
      used,
      pages,
      replicas,
      announced,
      keptTokens,
      users,
      server,
      db,
    );
  }

  signOut(digest: string): Promise<SignOutReply> {
    return this.pages.signOut({ digest, origin: this.origin });
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
    await this.company.stop();
    await this.db.destroy();
  }
}
