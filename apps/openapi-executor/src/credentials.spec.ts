/** Requests that act as a user carry nothing in the place of the credential but the credential of the user. */
import type { JsonObject } from '@toolfleet/contracts';
import type { SecurityScheme } from '@toolfleet/openapi';
import { describe, expect, it } from 'vitest';
import { Credentials } from './credentials.js';
import type { OAuthTokens } from './oauth-tokens.js';
import { readOptions } from './operation-options.js';
import type { OutgoingRequest } from './send-request.js';

const ANN = { kind: 'key', value: 'key-of-ann', header: undefined } as const;
const keyIn = (place: 'header' | 'cookie', name: string): SecurityScheme[][] => [
  [{ id: 'key', type: 'apiKey', in: place, name }],
];

describe('the request of a user', () => {
  const apply = async (extra_headers: JsonObject, security?: SecurityScheme[][], user: typeof ANN | null = ANN) => {
    const request: OutgoingRequest = { method: 'GET', origin: 'https://api.example.com', target: '/', headers: {} };
    await new Credentials((value) => value, undefined as unknown as OAuthTokens).apply(request, {
      collection: 'people',
      baseUrl: 'https://api.example.com',
      options: readOptions({ auth_type: 'none', extra_headers }),
      security,
      body: undefined,
      signal: new AbortController().signal,
      user: user ?? undefined,
    });
    return request.headers;
  };

  it('keeps its credential where the extra headers of the source have one', async () => {
    const extra_headers = { Authorization: 'Bearer of-the-source', 'X-Account-Key': 'of-the-source', 'X-App': 'fleet' };
    expect(await apply(extra_headers)).toMatchObject({ authorization: 'Bearer key-of-ann', 'x-app': 'fleet' });
    expect(await apply(extra_headers, keyIn('header', 'x-account-key'))).toEqual({
      'x-account-key': 'key-of-ann',
      'x-app': 'fleet',
    });
    expect(await apply({ Cookie: 'a=b' }, keyIn('cookie', 'key'))).toEqual({
      cookie: 'key=key-of-ann',
    });
  });

  it('has no credential of the source either where the operation is public', async () => {
    expect(await apply({ authorization: 'Bearer of-the-source' }, [])).toEqual({});
  });

  it('has those of the source without a user', async () => {
    const extra_headers = { Authorization: 'Bearer of-the-source' };
    expect(await apply(extra_headers, undefined, null)).toEqual({ authorization: 'Bearer of-the-source' });
  });
});
