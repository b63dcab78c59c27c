/** A company's OpenID provider for tests: a real one (`oidc-provider`), at which the person at the browser is always signed in. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWTPayload } from 'jose';
import { Provider, type Configuration } from 'oidc-provider';

/** Claims of users by name. */
export type Users = Record<string, Record<string, unknown>>;

export const CLIENT_ID = 'toolfleet';
export const CLIENT_SECRET = 'a-client-secret-for-tests-0123456789';
const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout';

/** Listens from the start, so that its issuer is known; answers once it knows where the fleet is. */
export class OpenIdProvider {
  /** Who is at the browser. */
  user = 'alice';
  /** Sent back without any code, as if the user declined. */
  declines = false;
  /** Gives no refresh tokens. */
  givesAccessOnly = false;
  /** Answers 503. */
  isDown = false;
  /** Users who left the company. */
  readonly disabled = new Set<string>();
  /** Refreshes that succeeded, and families of tokens that ended because an old one was used again. */
  refreshes = 0;
  revokedFamilies = 0;
  /** Claims that ID tokens have; the user's are in the answer of userinfo. */
  idTokenClaims: Users[string] = {};
  #provider: Provider | undefined;

  private constructor(
    private readonly server: Server,
    readonly issuer: string,
    private readonly users: Users,
    private readonly privateKey: CryptoKey,
  ) {}

  static async start(users: Users): Promise<OpenIdProvider> {
    const server = createServer((request, response) => {
      if (!started.#provider || started.isDown) return void response.writeHead(503).end();
      if (request.url?.startsWith('/login/')) return void started.#login(request, response);
      return void started.#provider.callback()(request, response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { privateKey } = await generateKeyPair('RS256', { extractable: true });
    const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const started = new OpenIdProvider(server, issuer, users, privateKey);
    return started;
  }

  /** Serves the relying party at this origin. @param features unlike most providers' */
  async serve(origin: string, features: Configuration['features'] = {}): Promise<void> {
    const key = { ...(await exportJWK(this.privateKey)), kid: 'k1', alg: 'RS256', use: 'sig' };
    const configuration: Configuration = {
      clients: [
        {
          client_id: CLIENT_ID,
          client_secret: CLIENT_SECRET,
          grant_types: ['authorization_code', 'refresh_token'],
          redirect_uris: [`${origin}/auth/callback`],
          post_logout_redirect_uris: [`${origin}/console`],
          backchannel_logout_uri: `${origin}/auth/backchannel-logout`,
          backchannel_logout_session_required: true,
        },
      ],
      scopes: ['openid', 'profile', 'email', 'groups'],
      claims: { openid: ['sub', 'sid'], email: ['email', 'email_verified'], groups: ['groups', 'tenant'] },
      conformIdTokenClaims: false,
      jwks: { keys: [key] },
      cookies: { keys: ['a-cookie-key-for-tests'] },
      features: {
        ...features,
        devInteractions: { enabled: false },
        backchannelLogout: { enabled: true },
        rpInitiatedLogout: {
          enabled: true,
          // Without the fonts of another host.
          logoutSource(context, form) {
            context.body = `<!doctype html><html lang="en"><title>Log out</title>${form}`;
          },
        },
      },
      interactions: { url: (_context, { uid }) => `/login/${uid}` },
      issueRefreshToken: () => !this.givesAccessOnly,
      rotateRefreshToken: true,
      expiresWithSession: () => false,
      findAccount: (_context, id) =>
        this.disabled.has(id)
          ? undefined
          : {
              accountId: id,
              claims: (use) => ({ ...(use === 'id_token' ? this.idTokenClaims : this.users[id]), sub: id }),
            },
      // The company has consented for everyone.
      async loadExistingGrant(context) {
        const { client, session, params } = context.oidc;
        const grant = new context.oidc.provider.Grant({ clientId: client!.clientId, accountId: session!.accountId! });
        grant.addOIDCScope(String(params!['scope']));
        await grant.save();
        return grant;
      },
    };
    this.#provider = new Provider(this.issuer, configuration);
    this.#provider.on('grant.success', ({ oidc }) => {
      if (oidc.params?.['grant_type'] === 'refresh_token') this.refreshes += 1;
    });
    this.#provider.on('grant.revoked', () => (this.revokedFamilies += 1));
  }

  /** A logout token as the provider signs it. @param claims override or, if undefined, remove a valid one's */
  logoutToken(claims: JWTPayload, header: { kid?: string } = { kid: 'k1' }): Promise<string> {
    const now = Math.floor(Date.now() / 1_000);
    const valid = {
      iss: this.issuer,
      aud: CLIENT_ID,
      iat: now,
      exp: now + 120,
      jti: crypto.randomUUID(),
      events: { [LOGOUT_EVENT]: {} },
    };
    const payload = JSON.parse(JSON.stringify({ ...valid, ...claims })) as JWTPayload;
    return new SignJWT(payload)
      .setProtectedHeader({ alg: 'RS256', typ: 'logout+jwt', ...header })
      .sign(this.privateKey);
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async #login(
    ...exchange: Parameters<Provider['interactionFinished']> extends [infer I, infer O, ...unknown[]] ? [I, O] : never
  ): Promise<void> {
    const result = this.declines
      ? { error: 'access_denied', error_description: 'The user <b>declined</b>' }
      : { login: { accountId: this.user } };
    await this.#provider!.interactionFinished(...exchange, result, { mergeWithLastSubmission: false });
  }
}
