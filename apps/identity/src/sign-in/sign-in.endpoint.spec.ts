import type { IdentityHttp, IdentityHttpReply } from '@toolfleet/contracts/sign-in';
import { describe, expect, it } from 'vitest';
import { signInEndpoints } from './sign-in.endpoint.js';
import { SignInPages } from './wire-sign-in.js';

/** Asks `identity.http`, of a fleet without `sign_in` by default. */
function ask(url: string, pages = new SignInPages()): Promise<IdentityHttpReply> {
  const [Endpoint] = signInEndpoints(pages, {} as never, {} as never);
  const request: IdentityHttp = { origin: 'https://fleet.test', method: 'GET', url, headers: [] };
  return (new Endpoint!() as { answer(message: unknown): Promise<IdentityHttpReply> }).answer(request);
}

describe('requests of browsers', () => {
  it('are answered with the missing section and what to use instead, where there is no sign-in', async () => {
    const { status, body } = await ask('/auth/login');
    expect(status).toBe(404);
    expect(JSON.parse(body)).toEqual({
      error: 'not_found',
      error_description: 'This fleet has no sign-in: its configuration file has no section sign_in. Use an API key.',
    });
  });

  it('are answered with a missing page where there is a sign-in', async () => {
    const part = { handle: async () => undefined };
    const { status, body } = await ask('/auth/unknown', new SignInPages(part as never, part as never));
    expect([status, JSON.parse(body)]).toEqual([
      404,
      { error: 'not_found', error_description: 'The sign-in has no such page' },
    ]);
  });

  it.each(['http://', '//[', 'https://a:b:c/'])('are refused as invalid with the address %s', async (url) => {
    await expect(ask(url)).rejects.toMatchObject({ code: 'REQUEST_INVALID', message: 'The request has no valid URL' });
  });
});
