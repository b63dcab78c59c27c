import { Body, Controller, Delete, Get, HttpCode, Inject, Param, Post, Query } from '@nestjs/common';
import { isJsonObject, type Principal, ToolError } from '@toolfleet/contracts';
import { ApiKeys, type KeySpec, type KeyView } from './api-keys.js';
import { AdminOnly, Caller } from './auth.guard.js';
import { VerifiedCache } from './verified-cache.js';

/** A key on the wire (snake_case, instants in ISO 8601). */
interface KeyBody {
  id: string;
  tenant_id: string;
  client: string;
  user_id: string;
  roles: string[];
  tools: string[];
  tier: string | null;
  budget_id: string | null;
  created_at: string;
  created_by: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

/**
 * API keys, for administrators. The token of a new key is shown in the answer to its creation and never again. The tenant of a
 * new key is in the body because the administrator's own tenant is not the one that is served.
 */
@Controller('api/v1/keys')
@AdminOnly()
export class KeysController {
  constructor(
    @Inject(ApiKeys) private readonly keys: ApiKeys,
    @Inject(VerifiedCache) private readonly verified: VerifiedCache,
  ) {}

  @Post()
  async create(@Body() body: unknown, @Caller() caller: Principal): Promise<KeyBody & { key: string }> {
    const { token, key } = await this.keys.issue(readSpec(body), caller.userId);
    return { key: token, ...bodyOf(key) };
  }

  @Get()
  async list(@Query('tenant_id') tenantId?: string): Promise<{ keys: KeyBody[] }> {
    return { keys: (await this.keys.list(tenantId)).map(bodyOf) };
  }

  @Delete(':id')
  @HttpCode(204)
  async revoke(@Param('id') id: string): Promise<void> {
    if (!(await this.keys.revoke(id))) throw new ToolError('NOT_FOUND', { message: 'No such key.' });
    this.verified.clear();
  }
}

const FIELDS: Record<string, (value: unknown) => boolean> = {
  tenant_id: isText,
  client: isText,
  user_id: isText,
  roles: isTextList,
  tools: isTextList,
  tier: isText,
  budget_id: isText,
  expires_at: (value) => isText(value) && /^\d{4}-\d\d-\d\d/.test(value) && !Number.isNaN(Date.parse(value)),
};

/** Shapes are checked here, meanings by `ApiKeys.issue`. Unknown fields are refused (mass assignment). */
function readSpec(body: unknown): KeySpec {
  const fields = isJsonObject(body) ? body : {};
  const faults = Object.keys(fields).filter((name) => !Object.hasOwn(FIELDS, name) || !FIELDS[name]!(fields[name]));
  for (const required of ['tenant_id', 'client']) if (!(required in fields)) faults.push(required);
  if (faults.length > 0) {
    throw new ToolError('REQUEST_INVALID', {
      message: `Bad field: ${faults.join(', ')}.`,
      details: { fields: faults },
    });
  }
  const expiresAt = fields['expires_at'];
  return {
    tenantId: fields['tenant_id'] as string,
    client: fields['client'] as string,
    userId: fields['user_id'] as string | undefined,
    roles: fields['roles'] as string[] | undefined,
    tools: fields['tools'] as string[] | undefined,
    tier: fields['tier'] as string | undefined,
    budgetId: fields['budget_id'] as string | undefined,
    expiresAt: expiresAt === undefined ? undefined : Date.parse(expiresAt as string),
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0;
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.length <= 100 && value.every(isText);
}

const instant = (at: number | undefined): string | null => (at === undefined ? null : new Date(at).toISOString());

function bodyOf(key: KeyView): KeyBody {
  return {
    id: key.id,
    tenant_id: key.tenantId,
    client: key.client,
    user_id: key.userId,
    roles: key.roles,
    tools: key.tools,
    tier: key.tier ?? null,
    budget_id: key.budgetId ?? null,
    created_at: new Date(key.createdAt).toISOString(),
    created_by: key.createdBy,
    expires_at: instant(key.expiresAt),
    revoked_at: instant(key.revokedAt),
    last_used_at: instant(key.lastUsedAt),
  };
}
