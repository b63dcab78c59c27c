import { ADMIN_ROLE, OPERATOR_ROLE, OPERATOR_TENANT, type Principal } from '@toolfleet/contracts';

/** Key id of `GATEWAY_ADMIN_KEY`, which is in no store. */
export const OPERATOR_KEY_ID = 'operator';

/** The holder of `GATEWAY_ADMIN_KEY`: makes the first keys; belongs to no customer's tenant. */
export const OPERATOR: Principal = {
  tenantId: OPERATOR_TENANT,
  userId: 'operator',
  roles: [ADMIN_ROLE, OPERATOR_ROLE],
  tools: ['*'],
  via: 'api_key',
  keyId: OPERATOR_KEY_ID,
};
