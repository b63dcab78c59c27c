import type { RouteRequest } from '@toolfleet/client';
import { CliError, EXIT } from './cli-error.js';
import { numberOption, optionValue, type CommandLine } from './command-line.js';

export type CallQuery = NonNullable<RouteRequest<'GET /api/v1/calls'>['query']>;

/** Options that filter calls, with their parameter of the HTTP API and their help. */
export const FILTERS = [
  ['from', 'from', '<when>', 'Ended then or later: 2026-01-31, 2026-01-31T12:00:00Z, or so long ago: 30m, 2h, 7d'],
  ['to', 'to', '<when>', 'Ended before'],
  ['tool', 'tool', '<tool>', 'Calls of this tool'],
  ['source', 'source', '<source>', 'Calls of the tools of this source, such as mcp/crm'],
  ['user', 'user_id', '<user>', 'Calls of this user'],
  ['key-id', 'key_id', '<id>', 'Calls made with this API key'],
  ['agent', 'agent_id', '<agent>', 'Calls of this agent'],
  ['tenant', 'tenant_id', '<tenant>', 'Calls of this tenant (operators)'],
  ['status', 'status', '<status,…>', 'success, tool_error, refused, cancelled, system_error; failure: all but success'],
  ['code', 'code', '<code>', 'Calls with this error code'],
  ['slower-than-ms', 'slower_than_ms', '<n>', 'Calls that took at least as long'],
  ['dearer-than-usd', 'dearer_than_usd', '<amount>', 'Calls that cost at least as much'],
  ['id', 'id', '<text>', 'Calls whose id begins so'],
  ['parent', 'parent_id', '<id>', 'Calls that the tool of this call made'],
] as const;

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The filters of a command line. @throws CliError */
export function filtersOf(line: CommandLine): CallQuery {
  const texts = FILTERS.map(([name, parameter]) => [parameter, optionValue(line, name)] as const);
  const { from, to, ...query } = Object.fromEntries(texts) as Partial<Record<string, string>>;
  const slower = numberOption(line, 'slower-than-ms');
  return { ...query, from: instant(from), to: instant(to), slower_than_ms: slower } as CallQuery;
}

/**
 * `2h` as the instant two hours ago; days and instants as they are.
 * @throws CliError for any other text
 */
export function instant(text: string | undefined): string | undefined {
  const [, count, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text ?? '') ?? [];
  if (count !== undefined) return new Date(Date.now() - Number(count) * UNITS[unit]!).toISOString();
  if (text !== undefined && Number.isNaN(Date.parse(text)))
    throw new CliError(
      `"${text}" cannot be read as a time; write 2026-01-31, 2026-01-31T12:00:00Z, or so long ago: 30m, 2h, 7d`,
      EXIT.usage,
    );
  return text;
}
