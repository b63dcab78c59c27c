import { USAGE_MEMBERS, type UsageGroup } from '@toolfleet/contracts/resources';
import { CliError, EXIT } from '../cli-error.js';
import { type Command, type CommandContext, noun, type Options, print } from '../command.js';
import { optionValue } from '../command-line.js';
import { table } from '../terminal.js';
import { budgetTable } from './budgets.js';

const BY: Options = [
  [
    '--by <groups>',
    'day, tool, source, user, key, agent, tenant (all tenants, for operators), separated by commas; default day,tool',
  ],
];
const PERIOD: Options = [['--from, --to <day>', 'first and last day; of a bill by default this month']];
const TENANT: Options = [
  ['--tenant <tenant>', 'of this tenant (operators); a bill of an operator is by default of all'],
];

/** `fleetctl usage`. */
export const usage: Command = noun('usage', {
  list: { options: [...BY, ...PERIOD, ...TENANT], run: sums },
  forecast: { options: [...BY, ...TENANT], run: forecast },
  bill: { options: [...PERIOD, ...TENANT, ['--format csv', 'for spreadsheets and other programs']], run: bill },
});

async function sums(context: CommandContext): Promise<number> {
  const { line, terminal, gateway } = context;
  const { by, groups } = readGroups(optionValue(line, 'by') ?? 'day,tool');
  const tenant = optionValue(line, 'tenant');
  const query = { group_by: by, from: optionValue(line, 'from'), to: optionValue(line, 'to'), tenant_id: tenant };
  // The budgets are the own tenant's.
  const isOwn = tenant === undefined && !groups.includes('tenant');
  const fleet = gateway();
  const [used, budgets] = await Promise.all([
    fleet.request('GET /api/v1/usage', { query }),
    isOwn ? fleet.request('GET /api/v1/budgets') : { budgets: [] },
  ]);
  if (context.json) return print(context, { ...used, ...budgets }, '');
  const rows = used.rows.map((row) => [
    ...groups.map((group) => row[USAGE_MEMBERS[group]] ?? '-'),
    row.calls,
    row.tokens,
    row.cost_usd,
  ]);
  if (rows.length === 0) terminal.out('No calls in this period\n');
  else terminal.out(table([...headsOf(groups), 'CALLS', 'TOKENS', 'COST USD'], rows, terminal.width));
  if (budgets.budgets.length > 0) terminal.out(`\n${budgetTable(budgets.budgets, terminal.width)}`);
  return EXIT.ok;
}

async function forecast(context: CommandContext): Promise<number> {
  const { line, terminal, gateway } = context;
  const { by, groups } = readGroups(optionValue(line, 'by') ?? 'tool');
  const query = { group_by: by, tenant_id: optionValue(line, 'tenant') };
  const body = await gateway().request('GET /api/v1/usage/forecast', { query });
  if (context.json) return print(context, body, '');
  const rows = body.rows.map((row) => [
    ...groups.map((group) => (group === 'day' ? '-' : (row[USAGE_MEMBERS[group]] ?? '-'))),
    row.spent_usd,
    row.per_day_usd,
    row.forecast_usd,
  ]);
  if (rows.length === 0) terminal.out('No usage this month\n');
  else terminal.out(table([...headsOf(groups), 'SPENT USD', 'A DAY', `END OF ${body.month}`], rows, terminal.width));
  terminal.error(`Spent this month, and the mean of the last ${body.observed_days} days for each day that is left\n`);
  return EXIT.ok;
}

async function bill(context: CommandContext): Promise<number> {
  const { line, terminal, gateway } = context;
  const format = optionValue(line, 'format');
  if (format !== undefined && format !== 'csv') throw new CliError('--format accepts csv', EXIT.usage);
  const query = {
    from: optionValue(line, 'from'),
    to: optionValue(line, 'to'),
    tenant_id: optionValue(line, 'tenant'),
  };
  const fleet = gateway();
  if (format === 'csv') {
    // Of a text, the body of the answer is the text.
    const text: unknown = await fleet.request('GET /api/v1/billing', { query: { ...query, format } });
    terminal.out(String(text));
    return EXIT.ok;
  }
  const body = await fleet.request('GET /api/v1/billing', { query });
  const rows = body.rows.map((row) => [row.tenant_id, row.day, row.tool_name, row.calls, row.tokens, row.cost_usd]);
  const heads = ['TENANT', 'DAY', 'TOOL', 'CALLS', 'TOKENS', 'COST USD'];
  const sum = `\n${body.cost_usd} USD from ${body.from} to ${body.to}\n`;
  return print(context, body, () => table(heads, rows, terminal.width) + sum);
}

function readGroups(by: string): { by: string; groups: UsageGroup[] } {
  const groups = by.split(',').map((group) => {
    if (!Object.hasOwn(USAGE_MEMBERS, group))
      throw new CliError(`--by accepts ${Object.keys(USAGE_MEMBERS).join(', ')}`, EXIT.usage);
    return group as UsageGroup;
  });
  return { by, groups };
}

const headsOf = (groups: readonly UsageGroup[]): string[] => groups.map((group) => group.toUpperCase());
