import { ToolError, type Principal } from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import type { QuarantineService } from './quarantine.js';
import { QuarantineRoutes } from './quarantine.routes.js';

const admin: Principal = { tenantId: 'acme', userId: 'ada', roles: ['admin'], tools: ['*'], via: 'api_key' };
const operator: Principal = { ...admin, roles: ['operator'] };

/** The routes over a registry in which only these keys await approval. */
function routesOver(...waiting: string[]) {
  const asked: string[] = [];
  const find = async (name: string, _revision: string, by: string) => {
    asked.push(name);
    expect(by).toBe('acme/ada');
    if (!waiting.includes(name)) throw new ToolError('NOT_FOUND');
    return 'r';
  };
  const list = async () => waiting.map((name) => ({ name }));
  const service = { list, approve: find, reject: find } as unknown as QuarantineService;
  return { routes: new QuarantineRoutes(service), asked };
}

const decision = (principal: Principal, name: string) => ({
  principal,
  path: { name },
  query: undefined,
  body: { pending_revision: 'r' },
});

describe('a decision about a quarantined tool', () => {
  it.each([
    ['crm_find', ['crm_find', 'acme/crm_find'], 'crm_find'],
    ['crm_find', ['acme/crm_find'], 'acme/crm_find'],
    ['acme/crm_find', ['acme/crm_find'], 'acme/crm_find'],
    ['other/crm_find', ['other/crm_find', 'acme/crm_find'], 'other/crm_find'],
  ])('of an operator on %s, where %j wait, is one on %s', async (name, waiting, key) => {
    const asked = decision(operator, name);
    expect(await routesOver(...waiting).routes.approveTool(asked)).toEqual({ name: key, revision: 'r' });
    expect(await routesOver(...waiting).routes.rejectTool(asked)).toEqual({ name: key });
  });

  it('of an administrator applies to a tool of its tenant only', async () => {
    const { routes, asked } = routesOver('crm_find', 'other/crm_find', 'acme/crm_get');
    for (const name of ['crm_find', 'other/crm_find']) {
      await expect(routes.approveTool(decision(admin, name))).rejects.toMatchObject({ code: 'NOT_FOUND' });
      await expect(routes.rejectTool(decision(admin, name))).rejects.toMatchObject({ code: 'NOT_FOUND' });
    }
    expect(new Set(asked)).toEqual(new Set(['acme/crm_find']));
    for (const name of ['crm_get', 'acme/crm_get'])
      expect(await routes.approveTool(decision(admin, name))).toEqual({ name: 'acme/crm_get', revision: 'r' });
  });

  it('is offered to an administrator for tools of its tenant, to an operator for all', async () => {
    const { routes } = routesOver('crm_find', 'other/crm_find', 'acme/crm_get');
    const names = async (principal: Principal) =>
      (await routes.listQuarantine({ principal, path: {}, query: undefined, body: undefined })).map(({ name }) => name);
    expect(await names(admin)).toEqual(['acme/crm_get']);
    expect(await names(operator)).toEqual(['crm_find', 'other/crm_find', 'acme/crm_get']);
  });

  it('never applies to a tool of another tenant', async () => {
    const { routes, asked } = routesOver('other/crm_find');
    await expect(routes.approveTool(decision(operator, 'crm_find'))).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(asked).toEqual(['crm_find', 'acme/crm_find']);
  });
});
