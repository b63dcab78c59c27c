import { CliError, EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { optionValue } from '../command-line.js';
import { table, jsonText } from '../terminal.js';

const GROUPS = { tenant: 'tenant_id', day: 'day', tool: 'tool_name', user: 'user_id', agent: 'agent_id' } as const;

/** `fleetctl usage`. */
export const usage: Command = {
  usage: 'usage [--by day,tool] [--from 2026-01-01] [--to 2026-01-31] [--tenant <tenant>]',
  summary: 'Show the usage of your tenant and what is left of its budgets; operators also of others',
  options: [
    [
      '--by <groups>',
      'day, tool, user, agent, tenant (all tenants, for operators), separated by commas; default day,tool',
    ],
    ['--from, --to <day>', 'First and last day'],
    ['--tenant <tenant>', 'Of this tenant (operators)'],
  ],
  mostWords: 0,
  known: ['by', 'from', 'to', 'tenant'],
  async run({ line, json, terminal, gateway }) {
    const by = optionValue(line, 'by') ?? 'day,tool';
    const groups = by.split(',').map((group) => {
      if (!Object.hasOwn(GROUPS, group)) throw new CliError('--by accepts day, tool, user, agent, tenant', EXIT.usage);
      return group as keyof typeof GROUPS;
    });
    const tenant = optionValue(line, 'tenant');
    const query = { group_by: by, from: optionValue(line, 'from'), to: optionValue(line, 'to'), tenant_id: tenant };
    // The budgets are those of the own tenant.
    const isOwn = tenant === undefined && !groups.includes('tenant');
    const fleet = gateway();
    const [used, budgets] = await Promise.all([
      fleet.request('GET /api/v1/usage', { query }),
      isOwn ? fleet.request('GET /api/v1/budgets') : { budgets: [] },
    ]);
    if (json) {
      terminal.out(`${jsonText({ ...used, ...budgets }, 2)}\n`);
      return EXIT.ok;
    }
    const rows = used.rows.map((row) => [
      ...groups.map((group) => row[GROUPS[group]] ?? '-'),
      row.calls,
      row.tokens,
      row.cost_usd,
    ]);
    if (rows.length === 0) terminal.out('No calls in this period\n');
    else
      terminal.out(
        table([...groups.map((group) => group.toUpperCase()), 'CALLS', 'TOKENS', 'COST USD'], rows, terminal.width),
      );
    const limits = budgets.budgets.map((one) => [
      one.scope,
      one.limit_usd ?? 'none',
      one.spent_usd,
      one.held_usd,
      one.limit_tokens ?? 'none',
      one.spent_tokens,
    ]);
    if (limits.length > 0)
      terminal.out(
        `\n${table(['BUDGET', 'LIMIT USD', 'SPENT', 'HELD', 'TOKEN LIMIT', 'TOKENS'], limits, terminal.width)}`,
      );
    return EXIT.ok;
  },
};
