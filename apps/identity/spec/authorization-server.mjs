/**
 * A real authorization server inside the test process (oidc-provider): refresh tokens rotate, and one that is used again ends its family.
 * Every sign-in is by `user`, who consents. Tokens are exchanged (RFC 8693, on-behalf-of), and users asserted to other servers (id-jag).
 */
import { createServer } from 'node:http';
import { createRemoteJWKSet, exportJWK, generateKeyPair, jwtVerify, SignJWT } from 'jose';
import { errors, Provider } from 'oidc-provider';

const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const TYPE = 'urn:ietf:params:oauth:token-type:';

/** @param redirectUris of the client `fleet` with the secret `secret-of-the-fleet` */
export async function startAuthorizationServer(redirectUris, { accessTokenSeconds = 2 } = {}) {
  let handle = (_request, response) => response.writeHead(503).end();
  const server = createServer((request, response) => void handle(request, response));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true });
  const key = { kid: 'k1', alg: 'RS256', use: 'sig' };
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...(await exportJWK(privateKey)), ...key }] },
    clients: [
      {
        client_id: 'public',
        token_endpoint_auth_method: 'none',
        redirect_uris: redirectUris,
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
      },
      {
        client_id: 'fleet',
        client_secret: 'secret-of-the-fleet',
        redirect_uris: redirectUris,
        grant_types: ['authorization_code', 'refresh_token', TOKEN_EXCHANGE, JWT_BEARER],
        response_types: ['code'],
      },
    ],
    features: {
      devInteractions: { enabled: false },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: (_context, _client, oneOf) => oneOf?.[0],
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: 'tools',
          accessTokenFormat: 'opaque',
          accessTokenTTL: accessTokenSeconds,
        }),
      },
    },
    cookies: { keys: ['key-of-cookies'] },
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    issueRefreshToken: () => true,
    rotateRefreshToken: () => true,
    scopes: ['openid', 'offline_access'],
    ttl: {
      AccessToken: accessTokenSeconds,
      AuthorizationCode: 60,
      RefreshToken: 3_600,
      Grant: 3_600,
      Session: 3_600,
      Interaction: 600,
    },
  });
  const facts = {
    issuer,
    user: 'ann',
    revoked: 0,
    refreshes: new Map(),
    early: 0,
    exchanges: [],
    issued: new Set(),
    refusesExchanges: false,
    trusts: undefined,
    beforeAnswer: undefined,
  };
  const accountOf = async (token) => (await provider.AccessToken.find(token))?.accountId;
  /** The user of a token of this server. @throws InvalidGrant */
  const subjectOf = async (token, type) => {
    if (facts.refusesExchanges) throw new errors.InvalidGrant('refused');
    const verified = () =>
      jwtVerify(token, publicKey, { issuer, audience: 'fleet' }).then(({ payload }) => payload.sub);
    const account = type === `${TYPE}id_token` ? await verified().catch(() => undefined) : await accountOf(token);
    if (account === undefined) throw new errors.InvalidGrant('the subject token is not valid');
    return account;
  };
  const grantToken = async (context, accountId, more = {}) => {
    const { client } = context.oidc;
    const grant = new provider.Grant({ accountId, clientId: client.clientId });
    const token = new provider.AccessToken({ accountId, client, grantId: await grant.save(), gty: 'exchange' });
    const access_token = await token.save();
    context.body = { access_token, token_type: 'Bearer', expires_in: accessTokenSeconds, ...more };
  };
  provider.registerGrantType(
    TOKEN_EXCHANGE,
    async (context) => {
      const { subject_token, subject_token_type, requested_token_type, audience } = context.oidc.params;
      const account = await subjectOf(subject_token, subject_token_type);
      facts.exchanges.push(`${requested_token_type?.slice(TYPE.length)} ${account} ${audience}`);
      if (requested_token_type !== `${TYPE}id-jag`)
        return grantToken(context, account, { issued_token_type: `${TYPE}access_token` });
      const assertion = new SignJWT({ client_id: 'fleet' })
        .setProtectedHeader({ alg: 'RS256', kid: 'k1', typ: 'oauth-id-jag+jwt' })
        .setIssuer(issuer)
        .setSubject(account)
        .setAudience(audience)
        .setJti(crypto.randomUUID())
        .setIssuedAt()
        .setExpirationTime('5m');
      const access_token = await assertion.sign(privateKey);
      context.body = { access_token, token_type: 'N_A', issued_token_type: requested_token_type, expires_in: 300 };
    },
    ['subject_token', 'subject_token_type', 'requested_token_type', 'audience', 'resource', 'scope'],
  );
  provider.registerGrantType(
    JWT_BEARER,
    async (context) => {
      const { assertion, requested_token_use: use } = context.oidc.params;
      if (use === 'on_behalf_of') {
        const account = await subjectOf(assertion, undefined);
        facts.exchanges.push(`on_behalf_of ${account}`);
        return grantToken(context, account);
      }
      const keys = createRemoteJWKSet(new URL('/jwks', facts.trusts));
      const { payload } = await jwtVerify(assertion, keys, {
        issuer: facts.trusts,
        audience: issuer,
        typ: 'oauth-id-jag+jwt',
      }).catch(() => {
        throw new errors.InvalidGrant('the assertion is not valid');
      });
      facts.exchanges.push(`asserted ${payload.sub}`);
      return grantToken(context, payload.sub);
    },
    ['assertion', 'requested_token_use', 'scope', 'resource'],
  );
  provider.on('grant.revoked', () => (facts.revoked += 1));
  const issuedAt = new Map();
  provider.on('grant.success', ({ oidc, body }) => {
    for (const name of ['access_token', 'refresh_token', 'id_token'])
      if (body[name] !== undefined) facts.issued.add(body[name]);
    const { accountId } = oidc.entities.Account ?? {};
    const ofClient = `${oidc.client?.clientId} ${accountId}`;
    const ageMs = performance.now() - (issuedAt.get(ofClient) ?? Number.NEGATIVE_INFINITY);
    issuedAt.set(ofClient, performance.now());
    if (oidc.params?.grant_type !== 'refresh_token') return;
    // Tokens are refreshed when a quarter of their life is left.
    if (ageMs < accessTokenSeconds * 700) facts.early += 1;
    facts.refreshes.set(accountId, (facts.refreshes.get(accountId) ?? 0) + 1);
  });
  const callback = provider.callback();
  handle = async (request, response) => {
    if (!request.url.startsWith('/interaction/')) {
      const { beforeAnswer } = facts;
      if (request.url === '/token' && beforeAnswer) {
        const end = response.end.bind(response);
        response.end = (...given) => void Promise.resolve(beforeAnswer()).then(() => end(...given));
      }
      return callback(request, response);
    }
    const { params } = await provider.interactionDetails(request, response);
    const accountId = request.headers['x-user'] ?? facts.user;
    const grant = new provider.Grant({ accountId, clientId: params.client_id });
    grant.addOIDCScope('openid offline_access');
    if (params.resource) grant.addResourceScope(String(params.resource), 'tools');
    const result = { login: { accountId }, consent: { grantId: await grant.save() } };
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  };
  return Object.assign(facts, {
    /** Who an access token was issued for; undefined for one that is not valid. */
    accountOf,
    /** Follows the redirects of a browser that has no session, until one leaves the server. @returns the query it leaves with */
    async signIn(url, user) {
      const cookies = new Map();
      for (let at = url; ;) {
        const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
        const response = await fetch(at, { redirect: 'manual', headers: { cookie, 'x-user': user } });
        await response.arrayBuffer();
        for (const line of response.headers.getSetCookie()) {
          const [pair] = line.split(';', 1);
          cookies.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1));
        }
        const next = response.headers.get('location');
        if (next === null) throw new Error(`${response.status} at ${at}`);
        at = new URL(next, at).href;
        if (!at.startsWith(issuer)) return new URL(at).search.slice(1);
      }
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}
