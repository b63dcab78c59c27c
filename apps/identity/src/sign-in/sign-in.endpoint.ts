import { ToolError } from '@toolfleet/contracts';
import type { ServiceHost } from '@toolfleet/service';
import { endpointsOf } from '@toolfleet/service/nats';
import type { SessionStore } from '../session-store.js';
import { readWebRequest, type WebRequest } from './web.js';
import type { SignInPages } from './wire-sign-in.js';

/** `identity.http` and what gateways ask about sessions of people. */
export const signInEndpoints = (pages: SignInPages, sessions: SessionStore, { clock }: ServiceHost) =>
  endpointsOf({
    'identity.http': async (request) => {
      let read: WebRequest;
      try {
        read = readWebRequest(request);
      } catch (cause) {
        throw new ToolError('REQUEST_INVALID', { message: 'The request has no valid URL', cause });
      }
      return pages.handle(read);
    },
    'identity.client.get': ({ token }) => pages.findClient(token),
    'identity.sign_out': (request) => pages.signOut(request),
    'identity.session.live': async ({ session_id }) => {
      const session = await sessions.byId(session_id, clock.now());
      return { live: session !== undefined, roles: session?.roles };
    },
  });
