import type { Budget, RouteRequest } from '@toolfleet/client';
import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import { optionValue, type CommandLine } from '../command-line.js';
import { table, jsonText } from '../terminal.js';

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

/** `fleetctl budgets`. */
export const budgets: Command = {
  usage:
    'budgets [list] [--tenant <tenant>] | budgets set <user|key|tenant> <id> --usd 20 [--tokens 100000] [--period day|month|total] | budgets remove <user|key|tenant> <id> [--period day|month|total]',
  options: [...LIMIT_OPTIONS, ['--tenant <tenant>', 'Of this tenant (operators)']],
  verbs: ['list', 'set', 'remove'],
  mostWords: 3,
  known: ['usd', 'tokens', 'period', 'tenant'],
  async run(context) {
    const [verb = 'list', subject, id] = context.words;
    if (verb === 'list' && subject === undefined) return list(context);
    if ((verb !== 'set' && verb !== 'remove') || !SUBJECTS.includes(subject ?? '') || id === undefined)
      throw new CliError(`usage: fleetctl ${budgets.usage}`, EXIT.usage);
    const name = readName(context.line, subject as Subject, id);
    return verb === 'set' ? set(context, name) : remove(context, name);
  },
};

type Name = Pick<RouteRequest<'PUT /api/v1/budgets'>['body'], 'subject' | 'id' | 'period' | 'tenant_id'>;

function readName(line: CommandLine, subject: Subject, id: string): Name {
  const of = subject === 'tenant' ? { tenant_id: id } : { id, tenant_id: optionValue(line, 'tenant') };
  return { subject, ...of, period: readPeriod(line) };
}

async function list({ gateway, line, terminal, json }: CommandContext): Promise<number> {
  const query = { tenant_id: optionValue(line, 'tenant') };
  const body = await gateway().request('GET /api/v1/budgets', { query });
  terminal.out(json ? `${jsonText(body, 2)}\n` : budgetTable(body.budgets, terminal.width));
  return EXIT.ok;
}

async function set({ gateway, line, terminal, json }: CommandContext, name: Name): Promise<number> {
  const limits = readLimits(line);
  if (limits.limit_usd === undefined && limits.limit_tokens === undefined)
    throw new CliError('budgets set needs --usd, --tokens or both', EXIT.usage);
  const budget = await gateway().request('PUT /api/v1/budgets', { body: { ...name, ...limits } });
  terminal.out(json ? `${jsonText(budget, 2)}\n` : budgetTable([budget], terminal.width));
  return EXIT.ok;
}

async function remove({ gateway, terminal, json }: CommandContext, name: Name): Promise<number> {
  await gateway().request('DELETE /api/v1/budgets', { query: name });
  const { subject, id = name.tenant_id, period = 'month' } = name;
  terminal.out(
    json ? `${jsonText({ subject, id, period, removed: true })}\n` : `Removed the budget of ${subject} ${id}\n`,
  );
  return EXIT.ok;
}

/** Limits with spending and reservations. */
export function budgetTable(rows: readonly Budget[], width: number | undefined): string {
  const cells = rows.map((one) => [
    one.scope,
    one.limit_usd ?? 'none',
    one.spent_usd,
    one.held_usd,
    one.limit_tokens ?? 'none',
    one.spent_tokens,
  ]);
  return table(['BUDGET', 'LIMIT USD', 'SPENT', 'HELD', 'TOKEN LIMIT', 'TOKENS'], cells, width);
}

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
