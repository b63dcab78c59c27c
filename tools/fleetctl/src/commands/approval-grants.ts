import type { ApprovalGrant, RouteRequest } from '@toolfleet/client';
import { CliError, EXIT } from '../cli-error.js';
import { type Columns, type CommandContext, print, printTable } from '../command.js';
import type { Gateway } from '../gateway.js';
import { hasSwitch, listOption, numberOption, optionValue, type CommandLine } from '../command-line.js';
import { facts, jsonText, paint, plain } from '../terminal.js';

/** Size of a page. */
const PAGE = 1_000;

type WantedGrant = NonNullable<RouteRequest<'POST /api/v1/approvals/{id}/approve'>['body']['grant']>;

/** What `--grant 8h --vary amount` allows besides the approved call. @throws CliError */
export function readGrant(line: CommandLine): WantedGrant | undefined {
  const life = optionValue(line, 'grant');
  const fields = listOption(line, 'vary');
  const max_uses = numberOption(line, 'max-uses');
  if (life === undefined) {
    if (fields || max_uses !== undefined)
      throw new CliError('--vary and --max-uses belong to --grant <duration>', EXIT.usage);
    return undefined;
  }
  const [, amount, unit] = /^(\d+)([mhd])$/.exec(life) ?? [];
  if (amount === undefined || unit === undefined)
    throw new CliError(`--grant must be a duration such as 8h, not "${life}"`, EXIT.usage);
  const hours = (Number(amount) * { m: 1, h: 60, d: 1_440 }[unit]!) / 60;
  return { hours, fields, max_uses };
}

/** `approvals grants [list | show <id> | revoke <id>]`. */
export const grantsCommand = (context: CommandContext, verb = 'list', id = ''): Promise<number> =>
  verb === 'list' ? list(context) : verb === 'show' ? show(context, id) : revoke(context, id);

async function readGrants(gateway: Gateway, ended: boolean): Promise<ApprovalGrant[]> {
  const found: ApprovalGrant[] = [];
  for (let cursor: string | undefined; ;) {
    const query = { limit: PAGE, ended, cursor };
    const { grants, next } = await gateway.request('GET /api/v1/approval-grants', { query });
    found.push(...grants);
    if (next === undefined) return found;
    cursor = next;
  }
}

async function list(context: CommandContext): Promise<number> {
  const grants = await readGrants(context.gateway(), hasSwitch(context.line, 'ended'));
  const columns: Columns<ApprovalGrant> = {
    GRANT: ({ id }) => id,
    TOOL: ({ tool }) => tool,
    'CALLS OF': ({ tenant_id: tenant, user_id: user }) => `${tenant}/${user}`,
    STATE: ({ state }) => state,
    'UNTIL (UTC)': ({ until }) => until.slice(0, 16).replace('T', ' '),
    USED: used,
    FOR: ({ for: covered }) => plain(covered.join('; ')),
  };
  return printTable(context, grants, columns, 'No grants', { grants });
}

const used = ({ uses, max_uses: max }: ApprovalGrant): string => (max === undefined ? `${uses}` : `${uses}/${max}`);

/** Shows a grant with the arguments of its calls, with hidden characters as code points. */
async function show({ gateway, json, terminal }: CommandContext, id: string): Promise<number> {
  const grant = await gateway().request('GET /api/v1/approval-grants/{id}', { path: { id } });
  if (json) {
    terminal.out(`${jsonText(grant, 2)}\n`);
    return EXIT.ok;
  }
  terminal.out(`${paint(terminal, 'bold', grant.tool)}  ${grant.state}\n`);
  for (const covered of grant.for) terminal.out(`${plain(covered)}\n`);
  const { acting_user_id: acting, user_id: user } = grant;
  const rows: [string, string][] = [
    ['calls of', `${grant.tenant_id}/${user}${acting === user ? '' : ` for ${acting}`}`],
    ['granted by', `${grant.granted_by.join(', ')} ${grant.granted_at}`],
    ['until', grant.until],
    ['used', `${used(grant)}${grant.last_used_at === undefined ? '' : `, last ${grant.last_used_at}`}`],
    ['may differ', grant.fields.length === 0 ? 'no argument' : grant.fields.join(', ')],
    ['approved call', grant.approval_id],
  ];
  if (grant.revoked_at !== undefined) rows.push(['revoked by', `${grant.revoked_by} ${grant.revoked_at}`]);
  terminal.out(facts(rows));
  if (grant.shown !== undefined) terminal.out(`\n${grant.shown.split('\n').map(plain).join('\n')}\n`);
  if (grant.hidden_characters)
    terminal.out(paint(terminal, 'red', `\n${grant.hidden_characters} hidden characters are shown as ‹U+…›\n`));
  if (grant.state === 'active') terminal.out(`\nfleetctl approvals grants revoke ${grant.id}\n`);
  return EXIT.ok;
}

async function revoke(context: CommandContext, id: string): Promise<number> {
  const grant = await context.gateway().request('DELETE /api/v1/approval-grants/{id}', { path: { id } });
  return print(context, grant, `Revoked: ${grant.tool} asks again; ${grant.uses} calls used the grant`);
}
