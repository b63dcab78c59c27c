import { Controller } from '@nestjs/common';
import { ToolError } from '@toolfleet/contracts';
import type { ClientGet, IdentityHttp, SessionLive, SignOut } from '@toolfleet/contracts/sign-in';
import { Clock } from '@toolfleet/resilience';
import { Endpoint } from '@toolfleet/transport';
import { SessionStore } from '../session-store.js';
import { json, readWebRequest, type WebRequest } from './web.js';
import { SignInPages } from './wire-sign-in.js';

/** `identity.http` and what gateways ask about sessions of people. */
@Controller()
export class SignInEndpoint {
  constructor(
    private readonly pages: SignInPages,
    private readonly sessions: SessionStore,
    private readonly clock: Clock,
  ) {}

  @Endpoint('identity.http')
  async http(request: IdentityHttp) {
    let read: WebRequest;
    try {
      read = readWebRequest(request);
    } catch (cause) {
      throw new ToolError('REQUEST_INVALID', { message: 'The request has no valid URL', cause });
    }
    const error_description =
      'This fleet has no sign-in: its configuration file has no section sign_in. Use an API key.';
    return (await this.pages.handle(read)) ?? json(404, { error: 'not_found', error_description });
  }

  @Endpoint('identity.client.get')
  client({ token }: ClientGet) {
    return this.pages.findClient(token);
  }

  @Endpoint('identity.sign_out')
  signOut(request: SignOut) {
    return this.pages.signOut(request);
  }

  @Endpoint('identity.session.live')
  async live({ session_id }: SessionLive) {
    const session = await this.sessions.byId(session_id, this.clock.now());
    return { live: session !== undefined, roles: session?.roles };
  }
}
