import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { invalidRequest, ToolError } from '@toolfleet/contracts';
import { LOOPBACK_NAMES } from '@toolfleet/access';
import type { ClientGetReply, IdentityHttpReply } from '@toolfleet/contracts/sign-in';
import { shownLine } from '@toolfleet/contracts/text';
import { DAY_MS } from '@toolfleet/database';
import type { SignInSettings } from '@toolfleet/fleet-file';
import type { Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { KeyRing } from '@toolfleet/service';
import { generateKeyPair, exportJWK, type JWK } from 'jose';
import inject from 'light-my-request';
import { errors, interactionPolicy, Provider, type Configuration, type InteractionResults } from 'oidc-provider';
import type { SessionStore } from '../session-store.js';
import type { SignInTokens } from '../sign-in-tokens.js';
import type { GuardedFetch, ProvenUser } from '../sign-in/company-provider.js';
import type { ConsoleSignIn } from '../sign-in/console-sign-in.js';
import { sessionMs, type ProviderAsks } from '../sign-in/provider-asks.js';
import type { SignedInUser } from '../sign-in/user-of-claims.js';
import { cookie, errorPage, openCookie, redirect, type WebRequest } from '../sign-in/web.js';
import { consentPage } from './consent-page.js';
import type { OAuthRecords } from './oauth-records.js';

const CONSENT_PATH = '/oauth/consent/';
const AUTHORIZE_PATH = '/oauth/authorize';
const METADATA_PATHS = ['/.well-known/oauth-authorization-server', '/.well-known/openid-configuration'];
/** Cookies of the authorization server; gateways pass on names that begin with `toolfleet-oauth-`. */
const COOKIES = {
  session: 'toolfleet-oauth-session',
  interaction: 'toolfleet-oauth-interaction',
  resume: 'toolfleet-oauth-resume',
};
const CONSENT_COOKIE = '__Host-toolfleet-consent-';
const TOKEN_SECONDS = 600;
const INTERACTION_SECONDS = 600;
const DEFAULT_DAYS = 30;
/** The one scope of the resource: a client may do over MCP the same as its user. */
const SCOPE = 'tools';
/** Requests at once to hosts of clients: anyone can name one that answers slowly, and other sign-ins must not wait for it. */
const MAX_FETCHES = 16;
const RESOURCE_PATH = /^\/mcp(?:\/t\/[A-Za-z0-9_@-]{1,80})?$/;

interface AuthorizationServerDeps {
  settings: SignInSettings;
  records: OAuthRecords;
  sessions: SessionStore;
  signIn: ConsoleSignIn;
  tokens: Pick<SignInTokens, 'of'>;
  asks: Pick<ProviderAsks, 'begin'>;
  keys: KeyRing;
  fetch: GuardedFetch;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn'>;
}

/** A user who came back from the provider, and decides about one authorization request. */
interface Deciding {
  user: SignedInUser;
  /** Of the session that it opens; the tokens of the sign-in are kept under it. */
  sessionId: string;
  issuer: string;
  subject: string;
  expiresAt: number;
}

/**
 * The authorization server of `/mcp` for OAuth clients (`oidc-provider`): authorization code with PKCE, `iss` in responses (RFC 9207), the URL
 * of the endpoint as resource (RFC 8707), client id metadata documents, rotating refresh tokens. Every authorization begins with a sign-in
 * at the company's provider and ends with the user's consent: the provider knows this fleet, and not the client that asks through it.
 * The service has no HTTP port: gateways pass requests on, and `light-my-request` gives them to the library.
 */
export class AuthorizationServer {
  readonly #providers = new Map<string, Promise<Provider>>();

  constructor(private readonly deps: AuthorizationServerDeps) {
    deps.signIn.continueAuthorization = (...given) => this.#remember(...given);
  }

  /** @returns undefined for a path that is not its own */
  async handle(request: WebRequest): Promise<IdentityHttpReply | undefined> {
    const { pathname } = request.url;
    if (!pathname.startsWith('/oauth/') && !METADATA_PATHS.includes(pathname)) return undefined;
    const provider = await this.#providerOf(request.origin);
    if (pathname === AUTHORIZE_PATH) requestScope(request.url.searchParams);
    if (!pathname.startsWith(CONSENT_PATH)) return dispatch(request, provider.callback());
    return this.#consent(provider, request);
  }

  /** The session behind an access token. */
  async find(token: string): Promise<ClientGetReply> {
    const { records, sessions, clock } = this.deps;
    const found = await records.find('AccessToken', token);
    const now = clock.now();
    if (!found?.accountId || found.exp === undefined || found.exp * 1_000 <= now) return {};
    const session = await sessions.byId(found.accountId, now);
    const resource = URL.parse([found.aud].flat()[0] ?? '')?.pathname;
    if (!session || resource === undefined) return {};
    return { session, expires_at: found.exp * 1_000, resource };
  }

  /** Shows the question to the user, and takes the answer. Without a sign-in for this request, the browser goes to the provider first. */
  async #consent(provider: Provider, request: WebRequest): Promise<IdentityHttpReply> {
    let answer: IdentityHttpReply | undefined;
    const answered = await dispatch(request, (incoming, outgoing) => {
      void this.#decide(provider, request, incoming, outgoing).then(
        (reply) => {
          answer = reply;
          if (!outgoing.writableEnded) outgoing.end();
        },
        (error: unknown) => {
          this.deps.logger.warn({ error }, 'a consent failed');
          answer = errorPage(error instanceof errors.SessionNotFound ? EXPIRED : error);
          outgoing.end();
        },
      );
    });
    return answer ?? answered;
  }

  /** @returns undefined once the library has answered */
  async #decide(
    provider: Provider,
    request: WebRequest,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
  ): Promise<IdentityHttpReply | undefined> {
    const { uid, params } = await provider.interactionDetails(incoming, outgoing);
    if (request.url.pathname !== `${CONSENT_PATH}${uid}`) throw EXPIRED;
    const deciding = this.#recall(uid, request);
    if (!deciding) return this.deps.signIn.toProvider(request, uid);
    const client = await provider.Client.find(String(params['client_id']));
    if (!client) throw EXPIRED;
    const redirectUri = String(params['redirect_uri'] ?? client.redirectUris?.[0] ?? '');
    const resource = resourceOf(params['resource'], request.origin);
    if (request.method !== 'POST') return consentPage({ client, redirectUri, resource, user: deciding.user });
    if (!isOwnForm(request))
      throw new ToolError('PERMISSION_DENIED', { message: 'Only the page of this fleet can send this answer' });
    const isAllowed = new URLSearchParams(request.body).get('decision') === 'allow';
    const result = isAllowed
      ? await this.#grant(
          provider,
          deciding,
          client.clientId,
          client.clientName,
          resource,
          String(params['scope'] ?? ''),
        )
      : { error: 'access_denied', error_description: 'The user declined' };
    outgoing.appendHeader('set-cookie', cookie(cookieOf(uid), '', 0));
    await provider.interactionFinished(incoming, outgoing, result, { mergeWithLastSubmission: false });
    return undefined;
  }

  /** Opens a session for the client: the row that people and administrators revoke. */
  async #grant(
    provider: Provider,
    { user, sessionId, issuer, subject }: Deciding,
    clientId: string,
    clientName: string | undefined,
    resource: string,
    scope: string,
  ): Promise<InteractionResults> {
    const { sessions, records, settings, tokens, asks, clock, logger } = this.deps;
    const now = clock.now();
    const owner = { session_id: sessionId, tenant_id: user.tenantId, user_id: user.userId };
    const kept = await tokens.of(owner);
    // The user was revoked meanwhile.
    if (!kept) throw EXPIRED;
    // Without a refresh token, the provider is not asked for as long as a client lasts.
    const isRenewable = kept.secrets.refresh_token !== undefined;
    const daysMs = (settings.clients?.days ?? DEFAULT_DAYS) * DAY_MS;
    const session = {
      ...owner,
      // No browser holds it: it is found by its id.
      digest: randomBytes(32).toString('base64url'),
      roles: user.roles,
      groups: user.groups,
      expires_at: now + (isRenewable ? daysMs : Math.min(daysMs, sessionMs(settings))),
      ask_at: asks.begin(user),
      // Without `sid`: the end of a session at the provider ends no client that the user connected; a logout of the user does.
      provider: { issuer, subject },
      client: { id: clientId, name: clientName && shownLine(clientName.slice(0, 200)) },
    };
    const accountId = await sessions.create(session, now);
    logger.info(
      {
        ...owner,
        client_id: clientId,
        client_name: clientName,
        resource,
      },
      'a user connected an OAuth client',
    );
    await records.confirmClient(clientId);
    const grant = new provider.Grant({ accountId, clientId });
    grant.addResourceScope(resource, SCOPE);
    const known = scope.split(' ').filter((name) => name === 'offline_access');
    if (known.length > 0) grant.addOIDCScope(known.join(' '));
    return { login: { accountId, remember: false }, consent: { grantId: await grant.save() } };
  }

  /** Keeps who came back for an interaction, sealed in the browser that came back. */
  #remember(uid: string, user: SignedInUser, { issuer, subject }: ProvenUser, sessionId: string): IdentityHttpReply {
    const deciding: Deciding = {
      user,
      sessionId,
      issuer,
      subject,
      expiresAt: this.deps.clock.now() + INTERACTION_SECONDS * 1_000,
    };
    const sealed = this.deps.keys.seal(JSON.stringify(deciding), `consent/${uid}`);
    const kept = cookie(cookieOf(uid), sealed, INTERACTION_SECONDS);
    return redirect(`${CONSENT_PATH}${encodeURIComponent(uid)}`, [kept]);
  }

  #recall(uid: string, request: WebRequest): Deciding | undefined {
    const deciding = openCookie<Deciding>(request, cookieOf(uid), this.deps.keys, `consent/${uid}`);
    return deciding && deciding.expiresAt > this.deps.clock.now() ? deciding : undefined;
  }

  /** Gateways of one fleet have one address; a development machine may be reached by several names. */
  #providerOf(origin: string): Promise<Provider> {
    let provider = this.#providers.get(origin);
    if (!provider) {
      if (this.#providers.size >= 8) this.#providers.clear();
      provider = this.#build(origin);
      this.#providers.set(origin, provider);
    }
    return provider;
  }

  async #build(origin: string): Promise<Provider> {
    const { settings, records, sessions, fetch, clock, keys } = this.deps;
    const seconds = (settings.clients?.days ?? DEFAULT_DAYS) * 86_400;
    const policy = interactionPolicy.base();
    policy
      .get('consent')!
      .checks.add(
        new interactionPolicy.Check(
          'always',
          'every authorization is confirmed by its user',
          'interaction_required',
          ({ oidc }) => !oidc.result?.['consent'],
        ),
      );
    const configuration: Configuration = {
      adapter: (kind: string) => records.of(kind),
      jwks: { keys: [await unusedKey()] },
      cookies: { names: COOKIES, keys: keys.derive('oauth cookies') },
      clientDefaults: {
        token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code', 'refresh_token'],
        id_token_signed_response_alg: 'ES256',
      },
      clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'],
      responseTypes: ['code'],
      scopes: ['offline_access'],
      pkce: { required: () => true },
      interactions: { policy, url: (_context, { uid }) => `${CONSENT_PATH}${uid}` },
      features: {
        devInteractions: { enabled: false },
        userinfo: { enabled: false },
        rpInitiatedLogout: { enabled: false },
        revocation: { enabled: true },
        // On by default. Access tokens are bearer tokens at `/mcp`, and gateways pass on no path of pushed requests.
        dPoP: { enabled: false },
        pushedAuthorizationRequests: { enabled: false },
        registration: { enabled: settings.clients?.registration ?? false },
        clientIdMetadataDocument: {
          enabled: true,
          ack: 'draft-02',
          allowFetch: (_context: unknown, id: string) =>
            isAllowedHost(new URL(id).hostname, settings.clients?.documents ?? ['*']),
        },
        resourceIndicators: {
          enabled: true,
          defaultResource: (_context, _client, oneOf) => oneOf?.[0] ?? `${origin}/mcp`,
          useGrantedResource: () => true,
          getResourceServerInfo: (_context, resource) => {
            resourceOf(resource, origin);
            return { scope: SCOPE, audience: resource, accessTokenFormat: 'opaque', accessTokenTTL: TOKEN_SECONDS };
          },
        },
      },
      extraClientMetadata: { properties: ['redirect_uris'], validator: checkRedirects },
      routes: {
        authorization: AUTHORIZE_PATH,
        token: '/oauth/token',
        registration: '/oauth/register',
        revocation: '/oauth/revoke',
        jwks: '/oauth/jwks',
      },
      ttl: {
        AccessToken: TOKEN_SECONDS,
        AuthorizationCode: 60,
        Grant: seconds,
        Interaction: INTERACTION_SECONDS,
        RefreshToken: seconds,
        Session: INTERACTION_SECONDS,
      },
      expiresWithSession: () => false,
      issueRefreshToken: (_context, client) => client.grantTypeAllowed('refresh_token'),
      rotateRefreshToken: true,
      // A session that was revoked has no account: its refresh tokens are refused.
      findAccount: async (_context, id) =>
        (await sessions.byId(id, clock.now())) ? { accountId: id, claims: () => ({ sub: id }) } : undefined,
      fetch: boundedFetch(fetch) as never,
      renderError: (context, out) => {
        const message = `The application cannot be connected: ${out.error_description ?? out.error}`;
        const { status, headers, body } = errorPage(invalidRequest(message));
        context.status = status;
        for (const [name, value] of headers) context.set(name, value);
        context.body = body;
      },
    };
    const provider = new Provider(origin, configuration);
    provider.proxy = true;
    return provider;
  }
}

const EXPIRED = new ToolError('UNAUTHENTICATED', {
  message: 'This request has expired, or began in another browser. Start again in the application.',
});

/** Gives a request to a handler of Node and returns its answer. */
async function dispatch(
  { method, url, headers, origin, body }: WebRequest,
  handler: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<IdentityHttpReply> {
  const passed = Object.fromEntries(headers);
  // Every authorization begins with a sign-in, so none is in the session of an earlier one.
  if (url.pathname === AUTHORIZE_PATH && passed['cookie'] !== undefined)
    passed['cookie'] = withoutSession(passed['cookie']);
  const response = await inject((request, answer) => void handler(request, answer), {
    method: method as 'GET',
    url: url.pathname + url.search,
    headers: { ...passed, host: new URL(origin).host, 'x-forwarded-proto': new URL(origin).protocol.slice(0, -1) },
    payload: body,
  });
  const answered = Object.entries(response.headers).flatMap(([name, value]) =>
    [value ?? []].flat().map((item): [string, string] => [name, String(item)]),
  );
  return {
    status: response.statusCode,
    headers: answered.filter(([name]) => !HOP_BY_HOP.has(name)),
    body: response.payload,
  };
}

/** Fetches documents and keys of clients: whole, and few at once. */
function boundedFetch(guarded: GuardedFetch): GuardedFetch {
  let running = 0;
  return async (input, init) => {
    if (running >= MAX_FETCHES)
      throw new ToolError('SERVICE_UNAVAILABLE', {
        message: 'Too many documents of clients are fetched at the moment',
      });
    running += 1;
    try {
      const response = await guarded(input, init);
      const body = await response.arrayBuffer();
      return new Response(response.status === 200 ? body : null, {
        status: response.status,
        headers: response.headers,
      });
    } finally {
      running -= 1;
    }
  };
}

/** Clients that name no scope, or others, ask for the one there is (RFC 6749 section 3.3). */
function requestScope(query: URLSearchParams): void {
  const scopes = (query.get('scope') ?? '').split(' ').filter((name) => name !== '');
  if (!scopes.includes(SCOPE)) query.set('scope', [...scopes, SCOPE].join(' '));
}

const HOP_BY_HOP = new Set(['connection', 'content-length', 'date', 'keep-alive', 'transfer-encoding']);

const withoutSession = (cookies: string): string =>
  cookies
    .split(';')
    .filter((pair) => !pair.trim().startsWith(COOKIES.session))
    .join(';');

/** Browsers send the origin of the page with every form. */
function isOwnForm({ headers, origin }: WebRequest): boolean {
  const site = headers.get('sec-fetch-site');
  return headers.get('origin') === origin && (site === undefined || site === 'same-origin');
}

/** @throws InvalidTarget for a resource that is not an endpoint of MCP of this fleet (RFC 8707 section 2) */
function resourceOf(wanted: unknown, origin: string): string {
  if (wanted === undefined) return `${origin}/mcp`;
  const url = typeof wanted === 'string' ? URL.parse(wanted) : null;
  if (!url || url.origin !== origin || url.search !== '' || !RESOURCE_PATH.test(url.pathname))
    throw new errors.InvalidTarget(`resource must be ${origin}/mcp, or ${origin}/mcp/t/<toolset>`);
  return url.href;
}

const isAllowedHost = (host: string, allowed: readonly string[]): boolean =>
  allowed.some((entry) => entry === '*' || entry === host || (entry.startsWith('*.') && host.endsWith(entry.slice(1))));

/** The cookie of an interaction: each tab decides about its own. */
const cookieOf = (uid: string): string => CONSENT_COOKIE + (/^[\w-]{10,100}$/.test(uid) ? uid.slice(0, 12) : '');

/**
 * Refuses redirects over plain HTTP to other machines, where anyone on the way reads the code. The library checks this for native clients
 * only (RFC 8252 section 8.3), and which schemes those may use; clients that register call themselves `web` or nothing.
 * @throws InvalidRedirectUri
 */
function checkRedirects(_context: unknown, _name: string, uris: unknown): void {
  const plain = (uris as string[]).map((uri) => new URL(uri)).find(({ protocol }) => protocol === 'http:');
  if (plain && !LOOPBACK_NAMES.has(plain.hostname))
    throw new errors.InvalidClientMetadata(`redirect_uris must be https, or http on loopback: ${plain.host}`);
}

/** The library wants a key for ID tokens. This server issues none, so each process may have its own. */
async function unusedKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  return { ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig' };
}
