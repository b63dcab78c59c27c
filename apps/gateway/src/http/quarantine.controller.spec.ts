import { ToolError, type JsonObject, type Principal } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { NatsClient } from '@toolfleet/transport';
import { describe, expect, it } from 'vitest';
import { QuarantineController } from './sources.controller.js';

const admin: Principal = { tenantId: 'acme', userId: 'ada', roles: ['admin'], tools: ['*'], via: 'api_key' };
const operator: Principal = { ...admin, roles: ['operator'] };

/** A registry in which only these keys await approval. */
function controllerOver(...waiting: string[]) {
  const asked: string[] = [];
  const ask = async (subject: string, { name }: JsonObject) => {
    asked.push(`${subject} ${name}`);
    if (subject === SUBJECTS.quarantineList) return { tools: waiting.map((key) => ({ name: key })) };
    if (!waiting.includes(String(name))) throw new ToolError('NOT_FOUND');
    return { name };
  };
  return { controller: new QuarantineController({ ask } as unknown as NatsClient), asked };
}

const decision = (name: string) => ({ path: { name }, query: undefined, body: { pending_revision: 'r' } });

describe('a decision about a quarantined tool', () => {
  it.each([
    ['crm_find', ['crm_find', 'acme/crm_find'], 'crm_find'],
    ['crm_find', ['acme/crm_find'], 'acme/crm_find'],
    ['acme/crm_find', ['acme/crm_find'], 'acme/crm_find'],
    ['other/crm_find', ['other/crm_find', 'acme/crm_find'], 'other/crm_find'],
  ])('of an operator on %s, where %j wait, is one on %s', async (name, waiting, key) => {
    const input = decision(name);
    expect(await controllerOver(...waiting).controller.approve(operator, input)).toEqual({ name: key });
    expect(await controllerOver(...waiting).controller.reject(operator, input)).toEqual({ name: key });
  });

  it('of an administrator applies to a tool of its tenant only', async () => {
    const { controller, asked } = controllerOver('crm_find', 'other/crm_find', 'acme/crm_get');
    for (const name of ['crm_find', 'other/crm_find']) {
      const decide = async (verb: 'approve' | 'reject') => controller[verb](admin, decision(name));
      await expect(decide('approve')).rejects.toMatchObject({ code: 'NOT_FOUND' });
      await expect(decide('reject')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    }
    expect(new Set(asked.map((line) => line.split(' ')[1]))).toEqual(new Set(['acme/crm_find']));
    for (const name of ['crm_get', 'acme/crm_get'])
      expect(await controller.approve(admin, decision(name))).toEqual({ name: 'acme/crm_get' });
  });

  it('is offered to an administrator for tools of its tenant, to an operator for all', async () => {
    const { controller } = controllerOver('crm_find', 'other/crm_find', 'acme/crm_get');
    const names = async (caller: Principal) => (await controller.list(caller)).map(({ name }) => name);
    expect(await names(admin)).toEqual(['acme/crm_get']);
    expect(await names(operator)).toEqual(['crm_find', 'other/crm_find', 'acme/crm_get']);
  });

  it('never applies to a tool of another tenant', async () => {
    const { controller, asked } = controllerOver('other/crm_find');
    await expect(controller.approve(operator, decision('crm_find'))).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
    expect(asked).toEqual([`${SUBJECTS.quarantineApprove} crm_find`, `${SUBJECTS.quarantineApprove} acme/crm_find`]);
  });
});
