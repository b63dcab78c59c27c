import { Controller } from '@nestjs/common';
import {
  GRANT_AUTHORIZE,
  GRANT_FIND,
  GRANT_FINISH,
  GRANT_LIST,
  GRANT_PUT,
  GRANT_REVOKE,
  GRANT_TOKEN,
  type GrantAuthorize,
  type GrantFind,
  type GrantFinish,
  type GrantList,
  type GrantPut,
  type GrantRevoke,
  type GrantToken,
} from '@toolfleet/contracts/identity';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint } from '@toolfleet/transport';
import { Grants } from './grants.js';
import { StoreLimit } from './store-limit.js';

/** `identity.grant.*`: credentials of users for upstream services. */
@Controller()
export class UserGrantEndpoint {
  constructor(
    private readonly grants: Grants,
    private readonly limit: StoreLimit,
  ) {}

  @Endpoint(SUBJECTS.grantFind, { schema: GRANT_FIND })
  find(query: GrantFind) {
    return this.limit.run(() => this.grants.find(query));
  }

  @Endpoint(SUBJECTS.grantPut, { schema: GRANT_PUT })
  async put(grant: GrantPut) {
    return { grant_id: await this.limit.run(() => this.grants.putKey(grant)) };
  }

  // These two and the token wait for authorization servers, so they have the deadline of their requests.
  @Endpoint(SUBJECTS.grantAuthorize, { schema: GRANT_AUTHORIZE })
  async authorize(begun: GrantAuthorize) {
    return { authorization_url: await this.grants.authorize(begun) };
  }

  @Endpoint(SUBJECTS.grantFinish, { schema: GRANT_FINISH })
  async finish(ended: GrantFinish) {
    return { source: await this.grants.finish(ended) };
  }

  @Endpoint(SUBJECTS.grantList, { schema: GRANT_LIST })
  async list({ tenant_id, user_id }: GrantList) {
    return { grants: await this.limit.run(() => this.grants.list(tenant_id, user_id)) };
  }

  @Endpoint(SUBJECTS.grantRevoke, { schema: GRANT_REVOKE })
  async revoke(scope: GrantRevoke) {
    return { revoked: await this.limit.run(() => this.grants.revoke(scope)) };
  }

  @Endpoint(SUBJECTS.grantToken, { schema: GRANT_TOKEN })
  token(question: GrantToken) {
    return this.grants.token(question);
  }
}
