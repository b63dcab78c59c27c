import { Controller, Res } from '@nestjs/common';
import { toUsd, type Principal } from '@toolfleet/contracts';
import type { BudgetLimitsReply, BudgetUsage, BudgetUsageReply, UsageSum } from '@toolfleet/contracts/budget';
import { csvRow } from '@toolfleet/contracts/csv';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { NatsClient } from '@toolfleet/transport';
import type { FastifyReply } from 'fastify';
import { Caller } from '../server/guards.js';
import { CallAccess, isOperator, seesTenantTotals } from '@toolfleet/access';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { Input, Serves } from '../server/routes.js';
import { parseInstant } from './instants.js';

const ASK_TIMEOUT_MS = 10_000;
const GROUPS = ['tenant', 'day', 'tool', 'user', 'agent'] as const;
type UsageGroup = BudgetUsage['group_by'][number];

/** What the caller's tenant has used and may still use, and for operators what the tenants have used. */
@Controller()
export class UsageController {
  constructor(
    private readonly nats: NatsClient,
    private readonly access: CallAccess,
  ) {}

  /** Sums of the ledger over the tools whose calls the caller has access to; `?format=csv` for spreadsheets. */
  @Serves('GET /api/v1/usage')
  async usage(
    @Caller() caller: Principal,
    @Input() { query: { from, to, tenant_id: asked, group_by: groupBy, format } }: RouteInput<'GET /api/v1/usage'>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const groups = (groupBy?.split(',') as UsageGroup[] | undefined) ?? ['day', 'tool'];
    // By tenant, an operator compares all of them.
    const tenantId = isOperator(caller) && (asked ?? groups.includes('tenant')) ? asked : caller.tenantId;
    const question: BudgetUsage = {
      tenant_id: tenantId ?? '*',
      from_at: from === undefined ? undefined : parseInstant(from),
      to_at: to === undefined ? undefined : parseInstant(to) + 86_400_000,
      group_by: groups.includes('tool') ? groups : [...groups, 'tool'],
    };
    const { rows } = await this.nats.request<BudgetUsageReply>(SUBJECTS.budgetUsage, question, {
      timeoutMs: ASK_TIMEOUT_MS,
    });
    const rule = await this.access.ruleFor(caller);
    const shown = sumByGroups(
      rows.filter(({ tool_name: tool }) => rule.tool(tool ?? '')),
      groups,
    ).map(toShownSum);
    if (format !== 'csv') return { tenant_id: tenantId, rows: shown };
    void reply.header('Content-Type', 'text/csv; charset=utf-8');
    return toCsv(shown);
  }

  /**
   * Limits with what is spent and held, of the tenant and of the named request, agent and task. A key narrowed to some tools
   * sees the scopes it names, not those that every tool of the tenant spends from.
   */
  @Serves('GET /api/v1/budgets')
  async budgets(@Caller() caller: Principal, @Input() { query }: RouteInput<'GET /api/v1/budgets'>) {
    const scopes = { tenant_id: caller.tenantId, ...query };
    const { limits } = await this.nats.request<BudgetLimitsReply>(
      SUBJECTS.budgetLimits,
      { scopes },
      { timeoutMs: ASK_TIMEOUT_MS },
    );
    return {
      tenant_id: caller.tenantId,
      budgets: limits
        .filter(({ scope }) => seesTenantTotals(caller) || !isTenantScope(scope))
        .map((limit) => ({
          scope: limit.scope,
          limit_usd: limit.limit_micro_usd === null ? null : toUsd(limit.limit_micro_usd),
          spent_usd: toUsd(limit.spent_micro_usd),
          held_usd: toUsd(limit.held_micro_usd),
          limit_tokens: limit.limit_tokens,
          spent_tokens: limit.spent_tokens,
          held_tokens: limit.held_tokens,
        })),
    };
  }
}

/** Scopes that every call of a tenant spends from: the tenant itself and its day (`day:2026-11-21`). */
const isTenantScope = (scope: string): boolean => scope === 'tenant' || scope.startsWith('day:');

/** Adds up sums by tool to sums of the requested groups, in the order of their first rows. */
function sumByGroups(rows: readonly UsageSum[], groups: readonly UsageGroup[]): UsageSum[] {
  if (groups.includes('tool')) return [...rows];
  const sums = new Map<string, UsageSum>();
  for (const { tool_name: _tool, ...row } of rows) {
    const { calls: _calls, tokens: _tokens, micro_usd: _microUsd, ...group } = row;
    const key = JSON.stringify(group);
    const sum = sums.get(key);
    if (!sum) sums.set(key, { ...row });
    else {
      sum.calls += row.calls;
      sum.tokens += row.tokens;
      sum.micro_usd += row.micro_usd;
    }
  }
  return [...sums.values()];
}

function toShownSum({ micro_usd: microUsd, ...sum }: UsageSum) {
  return { ...sum, cost_usd: toUsd(microUsd) };
}

function toCsv(rows: Record<string, string | number | undefined>[]): string {
  const columns = [
    ...GROUPS.map((group) => (group === 'day' ? 'day' : group === 'tool' ? 'tool_name' : `${group}_id`)),
    'calls',
    'tokens',
    'cost_usd',
  ];
  const used = columns.filter((column) => rows.some((row) => row[column] !== undefined));
  const lines = [used, ...rows.map((row) => used.map((column) => row[column]))];
  return lines.map((cells) => `${csvRow(cells)}\r\n`).join('');
}
