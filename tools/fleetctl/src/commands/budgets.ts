import type { Budget, RouteRequest } from '@toolfleet/client';
import { suggestion } from '@toolfleet/contracts/text';
import { CliError, EXIT } from '../cli-error.js';
import { type Columns, type Command, type CommandContext, noun, type Options, print, tableOf } from '../command.js';
import { optionValue, type CommandLine } from '../command-line.js';

type Subject = NonNullable<Budget['subject']>;
type Period = NonNullable<Budget['period']>;
const SUBJECTS: readonly string[] = ['user', 'key', 'tenant'] satisfies Subject[];
const PERIODS: readonly string[] = ['day', 'month', 'total'] satisfies Period[];

/** Options with the limits of a budget. */
export const LIMIT_OPTIONS = [
  ['--usd <amount>', 'Limit in USD'],
  ['--tokens <number>', 'Limit in tokens that tools report'],
  ['--period <period>', 'UTC day or month, or total; default month'],
] as const;

const OF_TENANT: Options = [['--tenant <tenant>', 'of this tenant (operators)']];
const NAMED = '<user|key|tenant> <id>';

/** `fleetctl budgets`. */
export const budgets: Command = noun('budgets', {
  list: { options: OF_TENANT, run: list },
  set: {
    words: NAMED,
    usage: `${NAMED} --usd 20`,
    options: [...LIMIT_OPTIONS, ...OF_TENANT],
    run: (context, subject, id) => set(context, readName(context.line, subject!, id!)),
  },
  remove: {
    words: NAMED,
    options: [...LIMIT_OPTIONS.slice(2), ...OF_TENANT],
    run: (context, subject, id) => remove(context, readName(context.line, subject!, id!)),
  },
});

type Name = Pick<RouteRequest<'PUT /api/v1/budgets'>['body'], 'subject' | 'id' | 'period' | 'tenant_id'>;

/** The name of a budget: its subject, id and period. @throws CliError */
export function readName(line: CommandLine, subject: string, id: string): Name {
  if (!SUBJECTS.includes(subject))
    throw new CliError(`A budget is of ${SUBJECTS.join(', ')}${suggestion(subject, SUBJECTS)}`, EXIT.usage);
  const of = subject === 'tenant' ? { tenant_id: id } : { id, tenant_id: optionValue(line, 'tenant') };
  return { subject: subject as Subject, ...of, period: readPeriod(line) };
}

async function list(context: CommandContext): Promise<number> {
  const query = { tenant_id: optionValue(context.line, 'tenant') };
  const body = await context.gateway().request('GET /api/v1/budgets', { query });
  return print(context, body, () => budgetTable(body.budgets, context.terminal.width));
}

async function set(context: CommandContext, name: Name): Promise<number> {
  const limits = readLimits(context.line);
  if (limits.limit_usd === undefined && limits.limit_tokens === undefined)
    throw new CliError('budgets set needs --usd, --tokens or both', EXIT.usage);
  const budget = await context.gateway().request('PUT /api/v1/budgets', { body: { ...name, ...limits } });
  return print(context, budget, () => budgetTable([budget], context.terminal.width));
}

async function remove(context: CommandContext, name: Name): Promise<number> {
  await context.gateway().request('DELETE /api/v1/budgets', { query: name });
  const { subject, id = name.tenant_id, period = 'month' } = name;
  return print(context, { subject, id, period, removed: true }, `Removed the budget of ${subject} ${id}`);
}

const COLUMNS: Columns<Budget> = {
  BUDGET: (one) => one.scope,
  'LIMIT USD': (one) => one.limit_usd ?? 'none',
  SPENT: (one) => one.spent_usd,
  HELD: (one) => one.held_usd,
  'TOKEN LIMIT': (one) => one.limit_tokens ?? 'none',
  TOKENS: (one) => one.spent_tokens,
};

/** Limits with spending and reservations. */
export const budgetTable = (rows: readonly Budget[], width: number | undefined): string =>
  tableOf(rows, COLUMNS, width);

/** The limits of a budget to set. @throws CliError */
export function readLimits(line: CommandLine): { limit_usd?: number; limit_tokens?: number; period?: Period } {
  return { limit_usd: readNumber(line, 'usd'), limit_tokens: readNumber(line, 'tokens'), period: readPeriod(line) };
}

function readPeriod(line: CommandLine): Period | undefined {
  const period = optionValue(line, 'period');
  if (period !== undefined && !PERIODS.includes(period))
    throw new CliError(`--period accepts ${PERIODS.join(', ')}`, EXIT.usage);
  return period as Period | undefined;
}

function readNumber(line: CommandLine, name: string): number | undefined {
  const text = optionValue(line, name);
  if (text === undefined) return undefined;
  if (!/^\d+(\.\d+)?$/.test(text)) throw new CliError(`--${name} must be a number, such as 20`, EXIT.usage);
  return Number(text);
}
