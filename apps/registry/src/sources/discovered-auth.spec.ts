import type { JsonObject } from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import { boundToOrigins, withDocumentServer, withServerResource } from './discovered-auth.js';

const USER = { mode: 'connect', client_id: 'fleet' } as const;
const BASE = 'https://api.example.com/v1';
const document = (scheme: JsonObject, security?: JsonObject[]): JsonObject => ({
  components: { securitySchemes: { key: { type: 'apiKey' }, login: scheme } },
  ...(security && { security }),
});
const CODE = { authorizationUrl: 'https://login.example.com/authorize', tokenUrl: '/token', scopes: { read: '' } };

describe('the authorization server of a source', () => {
  it('is that of the code flow in its document, with the scopes of all operations', () => {
    const root = document({ type: 'oauth2', flows: { authorizationCode: CODE } }, [{ key: [] }, { login: ['read'] }]);
    const urls = {
      authorization_url: 'https://login.example.com/authorize',
      token_url: 'https://api.example.com/token',
    };
    expect(withDocumentServer({ user: USER }, root, BASE)).toEqual({ user: { ...USER, ...urls, scopes: ['read'] } });
    const own = { ...USER, scopes: ['write'] };
    expect(withDocumentServer({ user: own }, root, BASE)).toEqual({ user: { ...own, ...urls } });
  });

  it('is the issuer of OpenID Connect', () => {
    const openIdConnectUrl = 'https://login.example.com/acme/.well-known/openid-configuration';
    const root = document({ type: 'openIdConnect', openIdConnectUrl });
    expect(withDocumentServer({ user: USER }, root, BASE)).toEqual({
      user: { ...USER, issuer: 'https://login.example.com/acme' },
    });
  });

  it.each([
    ['flows of machines', { type: 'oauth2', flows: { clientCredentials: { tokenUrl: 'https://login.example.com' } } }],
    [
      'variables',
      { type: 'oauth2', flows: { authorizationCode: { ...CODE, tokenUrl: 'https://${SECRET}.example.com' } } },
    ],
    ['no addresses', { type: 'oauth2', flows: { authorizationCode: { ...CODE, tokenUrl: 7 } } }],
    ['another metadata address', { type: 'openIdConnect', openIdConnectUrl: 'https://login.example.com/other' }],
  ])('is not taken from %s', (_name, scheme) => {
    expect(withDocumentServer({ user: USER }, document(scheme as JsonObject), BASE)).toEqual({ user: USER });
  });

  it('is the configured one, if there is one', () => {
    const root = document({ type: 'oauth2', flows: { authorizationCode: CODE } });
    for (const user of [{ ...USER, issuer: 'https://other.example.com' }, { mode: 'api_key' as const }]) {
      expect(withDocumentServer({ user }, root, BASE)).toEqual({ user });
      expect(withServerResource({ user }, 'https://mcp.example.com/mcp')).toEqual({ user });
    }
  });

  it('is named by the metadata of an MCP server, at its address', () => {
    const url = 'https://mcp.example.com/mcp';
    expect(withServerResource({ user: USER }, url)).toEqual({ user: { ...USER, resource: url } });
    expect(withServerResource({ user: { ...USER, resource: 'https://x' } }, url)?.user.resource).toBe('https://x');
    expect(withServerResource(undefined, url)).toBeUndefined();
  });
});

describe('credentials of users', () => {
  it('are bound to the origins that get them, whatever the paths and their order', () => {
    const of = (...urls: string[]) => boundToOrigins({ user: USER }, urls)?.user.sent_to;
    expect(of('https://b.example.com/v1', 'https://a.example.com:8443/x', 'https://b.example.com/v2')).toEqual([
      'https://a.example.com:8443',
      'https://b.example.com',
    ]);
    expect(of('https://${HOST}/mcp')).toEqual(['https://${HOST}/mcp']);
    expect(boundToOrigins(undefined, ['https://a.example.com'])).toBeUndefined();
  });
});
