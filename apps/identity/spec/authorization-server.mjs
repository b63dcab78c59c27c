/**
 * A real authorization server inside the test process (oidc-provider): refresh tokens rotate, and one that is used again ends its family.
 * Every sign-in is that of `user`, and consents.
 */
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

/** @param redirectUris of the client `fleet` with the secret `secret-of-the-fleet` */
export async function startAuthorizationServer(redirectUris, { accessTokenSeconds = 2 } = {}) {
  let handle = (_request, response) => response.writeHead(503).end();
  const server = createServer((request, response) => void handle(request, response));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'fleet',
        client_secret: 'secret-of-the-fleet',
        redirect_uris: redirectUris,
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
      },
    ],
    features: { devInteractions: { enabled: false } },
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
  const facts = { issuer, user: 'ann', revoked: 0, refreshes: new Map(), beforeAnswer: undefined };
  provider.on('grant.revoked', () => (facts.revoked += 1));
  provider.on('grant.success', ({ oidc }) => {
    if (oidc.params?.grant_type !== 'refresh_token') return;
    const { accountId } = oidc.entities.Account ?? {};
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
    const grant = new provider.Grant({ accountId: facts.user, clientId: params.client_id });
    grant.addOIDCScope('openid offline_access');
    const result = { login: { accountId: facts.user }, consent: { grantId: await grant.save() } };
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  };
  return Object.assign(facts, {
    /** Who an access token was issued for; undefined for one that is not valid. */
    accountOf: async (token) => (await provider.AccessToken.find(token))?.accountId,
    /** Follows the redirects of a browser that has no session, until one leaves the server. @returns the query it leaves with */
    async signIn(url, user) {
      facts.user = user;
      const cookies = new Map();
      for (let at = url; ;) {
        const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
        const response = await fetch(at, { redirect: 'manual', headers: { cookie } });
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
