import { Controller, Res } from '@nestjs/common';
import { parseInstant, toUsd, ToolError, type EpochMs, type Principal } from '@toolfleet/contracts';
import type { BudgetUsage, UsageSum } from '@toolfleet/contracts/budget';
import { csvRow } from '@toolfleet/contracts/csv';
import { Clock } from '@toolfleet/resilience';
import { NatsClient } from '@toolfleet/transport';
import type { FastifyReply } from 'fastify';
import { Caller } from '../server/guards.js';
import { EVERY_TENANT, hasRight } from '@toolfleet/access';
import { ownCalls } from '@toolfleet/engine/access';
import { USAGE_MEMBERS, type RouteInput, type UsageGroup } from '@toolfleet/contracts/resources';
import { Input, Serves } from '../server/routes.js';
import { forecastMonth, monthOf } from './forecast.js';

const DAY_MS = 86_400_000;
/** Days of one bill: a quarter. */
const MAX_BILLED_DAYS = 92;

/** Usage of the caller; with rights of its tenant or all tenants. */
@Controller()
export class UsageController {
  constructor(
    private readonly nats: NatsClient,
    private readonly clock: Clock,
  ) {}

  /** Sums of the ledger; `?format=csv` for spreadsheets. */
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

  /** Every charge of whole days by tenant, day and tool. */
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
      sums.push(...(await this.nats.ask('budget.usage', { ...day, group_by })).rows);
    }
    const rows = sums.map(toBillRow);
    if (query.format === 'csv') return toCsv(reply, BILL_COLUMNS, rows);
    const total = sums.reduce((sum, { micro_usd: microUsd }) => sum + microUsd, 0);
    return { from: toDay(from), to: toDay(to), micro_usd: total, cost_usd: exactUsd(total), rows };
  }

  /** Sums by groups: of the caller's own calls, and with the right to all calls the tenant's. */
  async #sums(
    caller: Principal,
    groups: readonly UsageGroup[],
    asked: Omit<BudgetUsage, 'group_by' | 'owner'>,
  ): Promise<UsageSum[]> {
    const owner = hasRight(caller, 'all_calls') ? undefined : ownCalls(caller);
    return (await this.nats.ask('budget.usage', { ...asked, owner, group_by: [...groups] })).rows;
  }
}

const readGroups = (text: string | undefined) => text?.split(',') as UsageGroup[] | undefined;

/** The tenant that a report is of: for an operator the one asked for, or all if it compares them; else the caller's. */
const reportedTenant = (caller: Principal, asked: string | undefined, compares: boolean): string | undefined =>
  hasRight(caller, 'all_calls', EVERY_TENANT) && (asked ?? compares) ? asked : caller.tenantId;

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
