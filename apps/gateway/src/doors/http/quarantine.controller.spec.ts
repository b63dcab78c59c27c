import { SUBJECTS, ToolError, type JsonObject, type Principal } from '@toolfleet/contracts';
import type { NatsClient } from '@toolfleet/transport';
import { describe, expect, it } from 'vitest';
import { QuarantineController } from './sources.controller.js';

const admin: Principal = { tenantId: 'acme', userId: 'ada', roles: ['admin'], tools: ['*'], via: 'api_key' };

/** A registry in which only these keys await approval. */
function controllerOver(...waiting: string[]) {
  const asked: string[] = [];
  const request = async (subject: string, { name }: JsonObject) => {
    asked.push(`${subject} ${name}`);
    if (!waiting.includes(String(name))) throw new ToolError('NOT_FOUND');
    return { name };
  };
  return { controller: new QuarantineController({ request } as unknown as NatsClient), asked };
}

describe('a decision about a quarantined tool', () => {
  it.each([
    ['crm_find', ['crm_find', 'acme/crm_find'], 'crm_find'],
    ['crm_find', ['acme/crm_find'], 'acme/crm_find'],
    ['acme/crm_find', ['acme/crm_find'], 'acme/crm_find'],
    ['other/crm_find', ['other/crm_find', 'acme/crm_find'], 'other/crm_find'],
  ])('on %s, where %j wait, is one on %s', async (name, waiting, key) => {
    const body = { pending_revision: 'r' };
    expect(await controllerOver(...waiting).controller.approve(admin, name, body)).toEqual({ name: key });
    expect(await controllerOver(...waiting).controller.reject(admin, name, body)).toEqual({ name: key });
  });

  it('never falls on a tool of another tenant', async () => {
    const { controller, asked } = controllerOver('other/crm_find');
    await expect(controller.approve(admin, 'crm_find', { pending_revision: 'r' })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
    expect(asked).toEqual([`${SUBJECTS.quarantineApprove} crm_find`, `${SUBJECTS.quarantineApprove} acme/crm_find`]);
  });
});
