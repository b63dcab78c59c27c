import type { RouteAnswer } from '@toolfleet/client';
import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import { optionValue } from '../command-line.js';
import { showOnce } from '../shown-once.js';
import { jsonText, table } from '../terminal.js';
import { budgetTable, LIMIT_OPTIONS, readLimits } from './budgets.js';
import { purge, PURGE_OPTIONS, purgeStatus } from './purge.js';

/** `fleetctl tenants`. */
export const tenants: Command = {
  usage:
    'tenants [list] | tenants create <tenant> [--tier <name>] [--usd 500] | tenants show <tenant> | tenants limits <tenant> [--usd 500] [--tokens 100000] [--period day|month|total] | tenants purge <tenant> --confirm <tenant> | tenants purge <tenant> --dry-run | tenants purge status <id>',
  options: [
    ['--client <name>', 'create: name of the administrator key; default admin'],
    ['--tier <name>', 'create: rate class of the administrator key'],
    ...LIMIT_OPTIONS,
    ...PURGE_OPTIONS,
  ],
  verbs: ['list', 'create', 'show', 'limits', 'purge'],
  mostWords: 3,
  known: ['client', 'tier', 'usd', 'tokens', 'period', 'dry-run', 'confirm', 'no-wait'],
  async run(context) {
    const [verb = 'list', tenant, id] = context.words;
    if (verb === 'list' && tenant === undefined) return list(context);
    if (verb === 'purge' && tenant === 'status' && id !== undefined) return purgeStatus(context, id);
    const act = VERBS.get(verb);
    if (!act || tenant === undefined || id !== undefined)
      throw new CliError(`usage: fleetctl ${tenants.usage}`, EXIT.usage);
    return act(context, tenant);
  },
};

const VERBS = new Map<string, (context: CommandContext, tenant: string) => Promise<number>>([
  ['create', create],
  ['show', show],
  ['limits', limits],
  ['purge', (context, tenant) => purge(context, { tenant_id: tenant }, tenant)],
]);

async function list({ gateway, json, terminal }: CommandContext): Promise<number> {
  const body = await gateway().request('GET /api/v1/tenants');
  terminal.out(json ? `${jsonText(body, 2)}\n` : summaryTable(body, terminal.width));
  return EXIT.ok;
}

async function create({ gateway, line, json, terminal }: CommandContext, tenant_id: string): Promise<number> {
  const names = { client: optionValue(line, 'client'), tier: optionValue(line, 'tier') };
  const body = await gateway().request('POST /api/v1/tenants', { body: { tenant_id, ...names, ...readLimits(line) } });
  showOnce({ json, terminal }, body, body.token, `Administrator key ${body.key.id} of ${tenant_id}`);
  return EXIT.ok;
}

async function show({ gateway, json, terminal }: CommandContext, id: string): Promise<number> {
  const body = await gateway().request('GET /api/v1/tenants/{id}', { path: { id } });
  if (json) terminal.out(`${jsonText(body, 2)}\n`);
  else terminal.out(`${summaryTable([body], terminal.width)}\n${budgetTable(body.budgets, terminal.width)}`);
  return EXIT.ok;
}

/** Sets the budget of a tenant, or shows its budgets. */
async function limits({ gateway, line, json, terminal }: CommandContext, id: string): Promise<number> {
  const sent = readLimits(line);
  const budgets =
    sent.limit_usd === undefined && sent.limit_tokens === undefined
      ? (await gateway().request('GET /api/v1/budgets', { query: { tenant_id: id } })).budgets
      : [await gateway().request('PUT /api/v1/budgets', { body: { subject: 'tenant', tenant_id: id, ...sent } })];
  terminal.out(json ? `${jsonText(budgets, 2)}\n` : budgetTable(budgets, terminal.width));
  return EXIT.ok;
}

function summaryTable(rows: RouteAnswer<'GET /api/v1/tenants'>, width: number | undefined): string {
  const cells = rows.map((one) => [
    one.tenant_id,
    one.keys,
    one.administrators,
    one.tiers.join(',') || '-',
    one.spent_usd,
    one.forecast_usd,
    one.last_used_at ?? 'never',
  ]);
  return table(['TENANT', 'KEYS', 'ADMINS', 'TIERS', 'SPENT USD', 'FORECAST', 'LAST USED'], cells, width);
}
