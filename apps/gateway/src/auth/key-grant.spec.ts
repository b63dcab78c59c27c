import { describe, expect, it } from 'vitest';
import type { Principal } from '@toolfleet/contracts';
import { grantOf, type KeyRequest } from './key-grant.js';

const admin: Principal = {
  tenantId: 'acme',
  userId: 'ada',
  roles: ['admin'],
  tools: ['calc*', 'web_search'],
  tier: 'pro',
  via: 'api_key',
};
const operator: Principal = { tenantId: 'operator', userId: 'ops', roles: ['operator'], tools: ['*'], via: 'api_key' };

describe('a key made by an administrator', () => {
  it('is of its own tenant, and of its tools and rate class unless it says less', () => {
    expect(grantOf(admin, { client: 'crm' })).toMatchObject({ tenantId: 'acme', tools: admin.tools, tier: 'pro' });
    expect(grantOf(admin, { client: 'crm', tools: ['calculator'], roles: ['admin'] })).toMatchObject({
      tools: ['calculator'],
      roles: ['admin'],
    });
    expect(grantOf({ ...admin, tier: undefined }, { client: 'crm' }).tier).toBeUndefined();
  });

  it.each<[Partial<KeyRequest>, string]>([
    [{ tenantId: 'globex' }, 'tenant_id'],
    [{ tenantId: 'operator' }, 'tenant_id'],
    [{ roles: ['operator'] }, 'roles'],
    [{ tier: 'enterprise' }, 'tier'],
    [{ tools: ['*'] }, 'tools'],
    [{ tools: ['calculator', 'file_read'] }, 'tools'],
  ])('cannot be %j', (request, field) => {
    expect(() => grantOf(admin, { client: 'crm', ...request })).toThrow(
      expect.objectContaining({ code: 'PERMISSION_DENIED', details: { fields: [field] } }),
    );
  });
});

describe('a key made by an operator', () => {
  it('is of any tenant, role and rate class', () => {
    const request = { client: 'crm', tenantId: 'globex', roles: ['admin'], tier: 'max' };
    expect(grantOf(operator, request)).toMatchObject({ ...request, tools: ['*'] });
    expect(grantOf(operator, { client: 'ops', roles: ['operator'] })).toMatchObject({ tenantId: 'operator' });
  });
});
