import type { RouteAnswer } from '@toolfleet/client';
import { EXIT } from '../cli-error.js';
import { type Columns, type Command, type CommandContext, noun, print, tableOf } from '../command.js';
import { optionValue } from '../command-line.js';
import { showOnce } from '../shown-once.js';
import { budgetTable, LIMIT_OPTIONS, readLimits } from './budgets.js';
import { purge, PURGE_OPTIONS, purgeStatus } from './purge.js';

/** `fleetctl tenants`. */
export const tenants: Command = noun('tenants', {
  list: {
    async run(context) {
      const body = await context.gateway().request('GET /api/v1/tenants');
      return print(context, body, () => tableOf(body, COLUMNS, context.terminal.width));
    },
  },
  create: {
    words: '<tenant>',
    options: [
      ['--client <name>', 'name of the administrator key; default admin'],
      ['--tier <name>', 'rate class of the administrator key'],
      ...LIMIT_OPTIONS,
    ],
    run: (context, tenant) => create(context, tenant!),
  },
  show: { words: '<tenant>', run: (context, tenant) => show(context, tenant!) },
  limits: { words: '<tenant>', options: LIMIT_OPTIONS, run: (context, tenant) => limits(context, tenant!) },
  purge: {
    words: '<tenant> | status <id>',
    options: PURGE_OPTIONS,
    run: (context, tenant, id) =>
      id === undefined ? purge(context, { tenant_id: tenant! }, tenant!) : purgeStatus(context, id),
  },
});

async function create({ gateway, line, json, terminal }: CommandContext, tenant_id: string): Promise<number> {
  const names = { client: optionValue(line, 'client'), tier: optionValue(line, 'tier') };
  const body = await gateway().request('POST /api/v1/tenants', { body: { tenant_id, ...names, ...readLimits(line) } });
  showOnce({ json, terminal }, body, body.token, `Administrator key ${body.key.id} of ${tenant_id}`);
  return EXIT.ok;
}

async function show(context: CommandContext, id: string): Promise<number> {
  const body = await context.gateway().request('GET /api/v1/tenants/{id}', { path: { id } });
  const { width } = context.terminal;
  return print(context, body, () => `${tableOf([body], COLUMNS, width)}\n${budgetTable(body.budgets, width)}`);
}

/** Sets the budget of a tenant, or shows its budgets. */
async function limits(context: CommandContext, id: string): Promise<number> {
  const { gateway, line, terminal } = context;
  const sent = readLimits(line);
  const budgets =
    sent.limit_usd === undefined && sent.limit_tokens === undefined
      ? (await gateway().request('GET /api/v1/budgets', { query: { tenant_id: id } })).budgets
      : [await gateway().request('PUT /api/v1/budgets', { body: { subject: 'tenant', tenant_id: id, ...sent } })];
  return print(context, budgets, () => budgetTable(budgets, terminal.width));
}

const COLUMNS: Columns<RouteAnswer<'GET /api/v1/tenants'>[number]> = {
  TENANT: (one) => one.tenant_id,
  KEYS: (one) => one.keys,
  ADMINS: (one) => one.administrators,
  TIERS: (one) => one.tiers.join(',') || '-',
  'SPENT USD': (one) => one.spent_usd,
  FORECAST: (one) => one.forecast_usd,
  'LAST USED': (one) => one.last_used_at ?? 'never',
};
