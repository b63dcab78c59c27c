import { createPrivateKeyJwtAuth, type AddClientAuthentication } from '@modelcontextprotocol/client';
import type { OAuthOptions } from './oauth-options.js';

/**
 * How the fleet proves who it is at a token endpoint: by signed assertion, by secret, or by name alone. Values are expanded
 * for each request, so that a rotated key is used from then on.
 */
export function clientAuthentication(oauth: OAuthOptions, expand: (value: string) => string): AddClientAuthentication {
  return async (headers, params, url, metadata) => {
    const id = oauth.clientId === undefined ? undefined : expand(oauth.clientId);
    if (id === undefined) return;
    if (oauth.privateKey !== undefined) {
      const sign = createPrivateKeyJwtAuth({
        issuer: id,
        subject: id,
        privateKey: expand(oauth.privateKey),
        alg: oauth.signingAlgorithm,
        ...(oauth.issuer === undefined ? {} : { audience: expand(oauth.issuer) }),
      });
      return sign(headers, params, url, metadata);
    }
    const secret = oauth.clientSecret === undefined ? '' : expand(oauth.clientSecret);
    const methods = metadata?.token_endpoint_auth_methods_supported ?? [];
    const inBody = methods.includes('client_secret_post') && !methods.includes('client_secret_basic');
    if (secret !== '' && !inBody) {
      // RFC 6749 2.3.1: both parts form-encoded before Basic.
      const pair = Buffer.from(`${encodeForm(id)}:${encodeForm(secret)}`).toString('base64');
      headers.set('authorization', `Basic ${pair}`);
      return;
    }
    params.set('client_id', id);
    if (secret !== '') params.set('client_secret', secret);
  };
}

const encodeForm = (text: string): string => new URLSearchParams({ v: text }).toString().slice(2);
