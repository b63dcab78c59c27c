import { expect, it } from 'vitest';
import { readOAuth } from './oauth-options.js';

const identity = { token_url: 'https://idp.example', client_id: 'f', id_token: '${ID_TOKEN}' };

it.each([
  [
    { client_id: 'f', client_secret: '${S}' },
    { clientId: 'f', clientSecret: '${S}' },
  ],
  [
    { client_id: 'f', private_key: '${K}', signing_algorithm: 'RS256' },
    { privateKey: '${K}', signingAlgorithm: 'RS256' },
  ],
  [
    { assertion: '${JWT}', dpop: true },
    { assertion: '${JWT}', dpop: true, signingAlgorithm: 'ES256' },
  ],
  [
    { client_id: 'f', identity },
    { identity: { tokenUrl: 'https://idp.example', clientId: 'f', idToken: '${ID_TOKEN}' } },
  ],
  [
    { client_id: 'f', scope: null },
    { clientId: 'f', dpop: false },
  ],
])('%j is read', (value, expected) => expect(readOAuth(value)).toMatchObject(expected));

it.each([
  ['a string', 'oauth'],
  [{}, 'oauth.client_id'],
  [{ client_id: 3 }, 'oauth.client_id'],
  [{ client_id: 'f', scopes: 'a' }, 'oauth.scopes is unknown'],
  [{ client_id: 'f', dpop: 'yes' }, 'oauth.dpop'],
  [{ client_id: 'f', private_key: 'k', signing_algorithm: 'none' }, 'oauth.signing_algorithm'],
  [{ client_id: 'f', client_secret: 's', private_key: 'k' }, 'oauth has both client_secret and private_key'],
  [{ client_id: 'f', refresh_token: 'r', assertion: 'a' }, 'oauth has both refresh_token and assertion'],
  [{ client_id: 'f', identity: { ...identity, id_token: '' } }, 'oauth.identity.id_token'],
  [{ client_id: 'f', identity: { ...identity, issuer: 'x' } }, 'oauth.identity.issuer is unknown'],
])('%j is refused', (value, fault) => expect(readOAuth(value)).toBe(fault));
