import { Controller } from '@nestjs/common';
import type {
  GrantAuthorize,
  GrantFind,
  GrantFinish,
  GrantList,
  GrantPut,
  GrantRevoke,
  GrantToken,
} from '@toolfleet/contracts/identity';
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

  @Endpoint('identity.grant.find')
  find(query: GrantFind) {
    return this.limit.run(() => this.grants.find(query));
  }

  @Endpoint('identity.grant.put')
  async put(grant: GrantPut) {
    return { grant_id: await this.limit.run(() => this.grants.putKey(grant)) };
  }

  // These two and the token wait for authorization servers, so they have the deadline of their requests.
  @Endpoint('identity.grant.authorize')
  async authorize(begun: GrantAuthorize) {
    return { authorization_url: await this.grants.authorize(begun) };
  }

  @Endpoint('identity.grant.finish')
  async finish(ended: GrantFinish) {
    return { source: await this.grants.finish(ended) };
  }

  @Endpoint('identity.grant.list')
  async list({ tenant_id, user_id }: GrantList) {
    return { grants: await this.limit.run(() => this.grants.list(tenant_id, user_id)) };
  }

  @Endpoint('identity.grant.revoke')
  async revoke(scope: GrantRevoke) {
    return { revoked: await this.limit.run(() => this.grants.revoke(scope)) };
  }

  @Endpoint('identity.grant.token')
  token(question: GrantToken) {
    return this.grants.token(question);
  }
}
