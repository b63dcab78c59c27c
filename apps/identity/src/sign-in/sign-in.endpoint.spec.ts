import type { IdentityHttp, IdentityHttpReply } from '@toolfleet/contracts/sign-in';
import { describe, expect, it } from 'vitest';
import { signInEndpoints } from './sign-in.endpoint.js';

/** The endpoint `identity.http` of a fleet without pages for any path, as one without `sign_in`. */
function ask(url: string): Promise<IdentityHttpReply> {
  const pages = { handle: async () => undefined };
  const [Endpoint] = signInEndpoints(pages as never, {} as never, {} as never);
  const request: IdentityHttp = { origin: 'https://fleet.test', method: 'GET', url, headers: [] };
  return (new Endpoint!() as { answer(message: unknown): Promise<IdentityHttpReply> }).answer(request);
}

describe('requests of browsers at a fleet without a sign-in', () => {
  it('are answered with the section that is missing, and what to use instead', async () => {
    const { status, body } = await ask('/auth/login');
    expect(status).toBe(404);
    expect(JSON.parse(body)).toEqual({
      error: 'not_found',
      error_description: 'This fleet has no sign-in: its configuration file has no section sign_in. Use an API key.',
    });
  });

  it.each(['http://', '//[', 'https://a:b:c/'])('are refused as invalid with the address %s', async (url) => {
    await expect(ask(url)).rejects.toMatchObject({ code: 'REQUEST_INVALID', message: 'The request has no valid URL' });
  });
});
