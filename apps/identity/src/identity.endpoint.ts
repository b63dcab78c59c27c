import type { ServiceHost } from '@toolfleet/service';
import { endpointsOf } from '@toolfleet/service/nats';
import type { Grants } from './grants.js';
import type { SessionStore } from './session-store.js';
import type { SignInTokens } from './sign-in-tokens.js';
import type { StoreLimit } from './store-limit.js';

interface Stores {
  sessions: SessionStore;
  grants: Grants;
  signIns: SignInTokens;
  limit: StoreLimit;
}

/** `identity.session.*`, and `identity.purge` of all that the service keeps. */
export const identityEndpoints = ({ sessions, grants, signIns, limit }: Stores, { clock }: ServiceHost) =>
  endpointsOf({
    'identity.session.get': async ({ digest }) => ({
      session: await limit.run(() => sessions.get(digest, clock.now())),
    }),
    'identity.session.revoke': (user) =>
      limit.run(async () => {
        // First, so that a consent that is under way opens no session afterwards.
        await signIns.forgetUser(user);
        return sessions.revoke(user, clock.now());
      }),
    'identity.purge': async ({ tenant_id, user_id, dry_run }) => {
      const counts = {
        sessions: await limit.run(() => sessions.purge(tenant_id, user_id, dry_run)),
        grants: await limit.run(() => grants.purge(tenant_id, user_id, dry_run)),
      };
      return { counts, more: false };
    },
  });

/** `identity.grant.*`: credentials of users for upstream services. */
export const grantEndpoints = ({ grants, limit }: Pick<Stores, 'grants' | 'limit'>) =>
  endpointsOf({
    'identity.grant.find': (query) => limit.run(() => grants.find(query)),
    'identity.grant.put': async (grant) => ({ grant_id: await limit.run(() => grants.putKey(grant)) }),
    // These two and the token wait for authorization servers, so they have the deadline of their requests.
    'identity.grant.authorize': async (begun) => ({ authorization_url: await grants.authorize(begun) }),
    'identity.grant.finish': async (ended) => ({ source: await grants.finish(ended) }),
    'identity.grant.token': (question) => grants.token(question),
    'identity.grant.list': async ({ tenant_id, user_id }) => ({
      grants: await limit.run(() => grants.list(tenant_id, user_id)),
    }),
    'identity.grant.revoke': async (scope) => ({ revoked: await limit.run(() => grants.revoke(scope)) }),
  });
