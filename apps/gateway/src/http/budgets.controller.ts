import { Controller } from '@nestjs/common';
import { ApiKeys, hasRight, requireRight } from '@toolfleet/access';
import { toUsd, ToolError, type EpochMs, type Principal } from '@toolfleet/contracts';
import type {
  BudgetLimits,
  BudgetPeriod,
  BudgetRemove,
  BudgetSet,
  BudgetSubject,
  LimitState,
} from '@toolfleet/contracts/budget';
import type { Right } from '@toolfleet/contracts/roles';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { orUnavailable } from '@toolfleet/queue/redis';
import { Clock } from '@toolfleet/resilience';
import { NatsClient } from '@toolfleet/transport';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';
import { monthOf } from './forecast.js';

const DAY_MS = 86_400_000;

/** Limits with spending and reservations: from the configuration, and set by administrators for users and keys. */
@Controller()
export class BudgetsController {
  constructor(
    private readonly nats: NatsClient,
    private readonly keys: ApiKeys,
    private readonly clock: Clock,
  ) {}

  /**
   * Of the named request, agent and task, and budgets that were set: with the right to all calls the tenant's, its users and keys,
   * else the caller's.
   */
  @Serves('GET /api/v1/budgets')
  async list(@Caller() caller: Principal, @Input() { query }: RouteInput<'GET /api/v1/budgets'>) {
    const { tenant_id: asked, ...named } = query;
    const tenant_id =
      asked === undefined || asked === caller.tenantId ? caller.tenantId : requireTenant(caller, 'all_calls', asked);
    const seesAll = hasRight(caller, 'all_calls');
    const budgets: BudgetLimits['budgets'] = seesAll ? '*' : { user_id: caller.userId, key_id: caller.keyId };
    const { limits } = await this.nats.ask('budget.limits', { scopes: { tenant_id, ...named }, budgets });
    return {
      tenant_id,
      budgets: limits
        .filter((limit) => seesAll || !isOfTenant(limit))
        .map((limit) => toBudget(limit, this.clock.now())),
    };
  }

  @Serves('PUT /api/v1/budgets')
  async set(@Caller() caller: Principal, @Input() { body }: RouteInput<'PUT /api/v1/budgets'>) {
    const { limit_usd, limit_tokens } = body;
    if (limit_usd === undefined && limit_tokens === undefined)
      throw invalid('Send limit_usd, limit_tokens or both', 'limit_usd');
    const message = toBudgetSet(await this.#named(caller, body), body, caller);
    return toBudget((await this.nats.ask('budget.set', message)).budget, this.clock.now());
  }

  @Serves('DELETE /api/v1/budgets')
  async remove(
    @Caller() caller: Principal,
    @Input() { query }: RouteInput<'DELETE /api/v1/budgets'>,
  ): Promise<undefined> {
    const { subject } = query;
    if (subject === undefined) throw invalid('Send subject', 'subject');
    const name = toName(caller, { ...query, subject });
    const { removed } = await this.nats.ask('budget.remove', name);
    if (!removed) throw new ToolError('NOT_FOUND', { message: 'No such budget' });
  }

  /** A key without a record is a typing error; users need no record. */
  async #named(caller: Principal, sent: BudgetRequest): Promise<BudgetRemove> {
    const name = toName(caller, sent);
    if (name.subject !== 'key') return name;
    const keys = await orUnavailable('The store of keys', this.keys.list(name.tenant_id));
    if (!keys.some(({ id }) => id === name.id)) throw invalid(`Tenant ${name.tenant_id} has no key '${name.id}'`, 'id');
    return name;
  }
}

/** A budget as the API shows it. */
export function toBudget({ scope, budget, ...limit }: LimitState, now: EpochMs) {
  return {
    scope,
    subject: budget?.subject,
    subject_id: budget?.id || undefined,
    period: budget?.period,
    resets_at: budget && resetsAt(budget.period, now),
    limit_usd: limit.limit_micro_usd === null ? null : toUsd(limit.limit_micro_usd),
    spent_usd: toUsd(limit.spent_micro_usd),
    held_usd: toUsd(limit.held_micro_usd),
    limit_tokens: limit.limit_tokens,
    spent_tokens: limit.spent_tokens,
    held_tokens: limit.held_tokens,
  };
}

function resetsAt(period: BudgetPeriod, now: EpochMs): string | undefined {
  if (period === 'total') return undefined;
  return new Date(period === 'month' ? monthOf(now).endsAt : Math.floor(now / DAY_MS + 1) * DAY_MS).toISOString();
}

/** The message that sets the limits of a budget. */
export function toBudgetSet(
  name: BudgetRemove,
  { limit_usd: usd, limit_tokens: tokens }: { limit_usd?: number; limit_tokens?: number },
  { userId }: Principal,
): BudgetSet {
  const limit_micro_usd = usd === undefined ? null : Math.round(usd * 1_000_000);
  return { ...name, limit_micro_usd, limit_tokens: tokens ?? null, changed_by: userId };
}

interface BudgetRequest {
  subject: BudgetSubject;
  id?: string;
  period?: BudgetPeriod;
  tenant_id?: string;
}

/** @throws ToolError REQUEST_INVALID; PERMISSION_DENIED: a tenant does not set its own limit */
function toName(caller: Principal, { subject, id, period = 'month', tenant_id: asked }: BudgetRequest): BudgetRemove {
  if ((subject === 'tenant') !== (id === undefined))
    throw invalid(subject === 'tenant' ? 'A budget of a tenant has no id' : `Send the id of the ${subject}`, 'id');
  const right = subject === 'tenant' ? 'operate_fleet' : 'manage_budgets';
  return { tenant_id: requireTenant(caller, right, asked), subject, id: id ?? '', period };
}

/** The tenant of a request, in which the caller needs the right. @throws ToolError PERMISSION_DENIED */
function requireTenant(caller: Principal, right: Right, tenantId = caller.tenantId): string {
  requireRight(caller, right, `A budget of ${tenantId}`, tenantId);
  return tenantId;
}

/** Scopes that every call of a tenant spends from: the tenant itself, its day (`day:2026-11-21`), and budgets of it. */
const isOfTenant = ({ scope, budget }: LimitState): boolean =>
  budget ? budget.subject === 'tenant' : scope === 'tenant' || scope.startsWith('day:');

const invalid = (message: string, field: string): ToolError =>
  new ToolError('REQUEST_INVALID', { message, details: { fields: [field] } });
