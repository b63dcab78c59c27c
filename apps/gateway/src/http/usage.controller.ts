import { Controller, Res } from '@nestjs/common';
import { toUsd, ToolError, type EpochMs, type Principal } from '@toolfleet/contracts';
import type { BudgetUsage, UsageSum } from '@toolfleet/contracts/budget';
import { csvRow } from '@toolfleet/contracts/csv';
import { Clock } from '@toolfleet/resilience';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { NatsClient } from '@toolfleet/transport';
import type { FastifyReply } from 'fastify';
import { Caller } from '../server/guards.js';
import { CallAccess, EVERY_TENANT, hasRight } from '@toolfleet/access';
import { USAGE_MEMBERS, type RouteInput, type UsageGroup } from '@toolfleet/contracts/resources';
import { Input, Serves } from '../server/routes.js';
import { askService } from './ask-service.js';
import { forecastMonth, monthOf } from './forecast.js';
import { parseInstant } from './instants.js';

const DAY_MS = 86_400_000;
/** Days of one bill: a quarter. */
const MAX_BILLED_DAYS = 92;

/** What the caller's tenant has used, and for operators what the tenants have used. */
@Controller()
export class UsageController {
  constructor(
    private readonly nats: NatsClient,
    private readonly access: CallAccess,
    private readonly clock: Clock,
  ) {}

  /** Sums of the ledger over the tools whose calls the caller has access to; `?format=csv` for spreadsheets. */
  @Serves('GET /api/v1/usage')
  async usage(
    @Caller() caller: Principal,
    @Input() { query: { from, to, tenant_id: asked, group_by: groupBy, format } }: RouteInput<'GET /api/v1/usage'>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const groups = readGroups(groupBy) ?? ['day', 'tool'];
    const tenantId = reportedTenant(caller, asked, groups.includes('tenant'));
    const sums = await this.#sums(caller, groups, {
      tenant_id: tenantId ?? '*',
      from_at: from === undefined ? undefined : parseInstant(from),
      to_at: to === undefined ? undefined : parseInstant(to) + DAY_MS,
    });
    const rows = sums.map(toShownSum);
    if (format !== 'csv') return { tenant_id: tenantId, rows };
    return toCsv(reply, [...Object.values(USAGE_MEMBERS), 'calls', 'tokens', 'cost_usd'], rows);
  }

  /** The month so far and its end, by the same groups and rights as usage. */
  @Serves('GET /api/v1/usage/forecast')
  async forecast(
    @Caller() caller: Principal,
    @Input() { query: { tenant_id: asked, group_by: groupBy } }: RouteInput<'GET /api/v1/usage/forecast'>,
  ) {
    const groups = readGroups(groupBy) ?? ['tool'];
    const tenantId = reportedTenant(caller, asked, groups.includes('tenant'));
    const sumsSince = (from_at: EpochMs, by: readonly UsageGroup[]) =>
      this.#sums(caller, by, { tenant_id: tenantId ?? '*', from_at, to_at: undefined });
    return { tenant_id: tenantId, ...(await forecastMonth(sumsSince, groups, this.clock.now())) };
  }

  /** Every charge of whole days by tenant, day and tool, whatever tools the key is narrowed to. */
  @Serves('GET /api/v1/billing')
  async billing(
    @Caller() caller: Principal,
    @Input() { query }: RouteInput<'GET /api/v1/billing'>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const now = this.clock.now();
    const from = query.from === undefined ? monthOf(now).startsAt : parseInstant(query.from);
    const to = query.to === undefined ? now : parseInstant(query.to);
    const days = Math.floor(to / DAY_MS) - Math.floor(from / DAY_MS) + 1;
    if (days < 1 || days > MAX_BILLED_DAYS)
      throw new ToolError('REQUEST_INVALID', {
        message: `from and to must be 1 to ${MAX_BILLED_DAYS} days; these are ${Math.max(0, days)}`,
        details: { fields: ['from', 'to'] },
      });
    const tenantId = reportedTenant(caller, query.tenant_id, true);
    const sums: UsageSum[] = [];
    // Day by day, so that no answer of the ledger exceeds a message.
    for (let at = from; at <= to; at += DAY_MS) {
      const day = { tenant_id: tenantId ?? '*', from_at: at, to_at: at + DAY_MS };
      const group_by: UsageGroup[] = ['day', 'tenant', 'tool', 'source'];
      sums.push(...(await askService(this.nats, SUBJECTS.budgetUsage, { ...day, group_by })).rows);
    }
    const rows = sums.map(toBillRow);
    if (query.format === 'csv') return toCsv(reply, BILL_COLUMNS, rows);
    const total = sums.reduce((sum, { micro_usd: microUsd }) => sum + microUsd, 0);
    return { from: toDay(from), to: toDay(to), micro_usd: total, cost_usd: exactUsd(total), rows };
  }

  /** Sums by groups over the tools whose calls the caller has access to. */
  async #sums(
    caller: Principal,
    groups: readonly UsageGroup[],
    asked: Omit<BudgetUsage, 'group_by'>,
  ): Promise<UsageSum[]> {
    const group_by = groups.includes('tool') ? [...groups] : [...groups, 'tool' as const];
    const { rows: sums } = await askService(this.nats, SUBJECTS.budgetUsage, { ...asked, group_by });
    const rule = await this.access.ruleFor(caller);
    return sumByGroups(
      sums.filter(({ tool_name: tool }) => rule.tool(tool ?? '')),
      groups,
    );
  }
}

const readGroups = (text: string | undefined) => text?.split(',') as UsageGroup[] | undefined;

/** The tenant that a report is of: for an operator the one asked for, or all if it compares them; else the caller's. */
const reportedTenant = (caller: Principal, asked: string | undefined, compares: boolean): string | undefined =>
  hasRight(caller, 'all_calls', EVERY_TENANT) && (asked ?? compares) ? asked : caller.tenantId;

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

const BILL_COLUMNS = ['tenant_id', 'day', 'tool_name', 'source', 'calls', 'tokens', 'micro_usd', 'cost_usd'];
const toDay = (at: EpochMs): string => new Date(at).toISOString().slice(0, 10);
const exactUsd = (microUsd: number): string => toUsd(microUsd).toFixed(6);

function toBillRow({ tenant_id = '', day = '', tool_name = '', source, calls, tokens, micro_usd }: UsageSum) {
  return { tenant_id, day, tool_name, source, calls, tokens, micro_usd, cost_usd: exactUsd(micro_usd) };
}

/** A table with the columns that any row has. */
function toCsv(reply: FastifyReply, columns: readonly string[], rows: Record<string, string | number | undefined>[]) {
  void reply.header('Content-Type', 'text/csv; charset=utf-8');
  const used = columns.filter((column) => rows.some((row) => row[column] !== undefined));
  const lines = [used, ...rows.map((row) => used.map((column) => row[column]))];
  return lines.map((cells) => `${csvRow(cells)}\r\n`).join('');
}
