import type { ApiKey, NewKey, RoleSummary } from '@toolfleet/client';
import { CliError, EXIT } from '../cli-error.js';
import { type Columns, type Command, type CommandContext, noun, printTable } from '../command.js';
import { hasSwitch, listOption, optionValue } from '../command-line.js';
import { showOnce } from '../shown-once.js';
import { jsonText } from '../terminal.js';

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

/** `fleetctl keys`. */
export const keys: Command = noun('keys', {
  list: { run: list },
  create: {
    words: '<client>',
    options: [
      ['--tenant <id>', 'tenant; default: your own; others as operator'],
      ['--service <name>', 'for a service account, user service:<name> (administrators); default: for yourself'],
      ['--user <id>', 'for another user (operators, or the right mint_for_users)'],
      ['--tools <globs>', 'globs of the tools it may call, separated by commas'],
      ['--projects <ids>', 'projects whose files it may use, separated by commas; the first is its default'],
      ['--toolset <name>', 'binds the key to a toolset; name@version: to one version'],
      ['--tier <name>', 'rate class (operators)'],
      ['--mcp-mode <list|search|code>', 'what its MCP requests see; code: three tools to write programs'],
      ['--note <text>', 'what it is for; shown in lists'],
      ['--expires <30d|12h>', 'lifetime; default: until revoked, or as long as your own key'],
      ['--roles <names>', 'roles, separated by commas: approver, auditor, or those of the configuration file'],
      ['--admin', 'administers its tenant: keys, tools, approvals'],
      ['--operator', 'operates the fleet; belongs to tenant operator'],
    ],
    run: (context, client) => create(context, client!),
  },
  revoke: {
    words: '<id>',
    options: [['--children', 'also all keys created with it, directly or through others']],
    run: (context, id) => revoke(context, id!),
  },
  roles: {
    async run(context) {
      const columns: Columns<RoleSummary> = {
        ROLE: ({ name }) => name,
        GROUPS: ({ groups }) => groups.join(','),
        RIGHTS: ({ rights }) => rights.join(','),
      };
      return printTable(context, await context.gateway().request('GET /api/v1/roles'), columns, 'No roles');
    },
  },
});

async function list(context: CommandContext): Promise<number> {
  const columns: Columns<ApiKey> = {
    ID: ({ id }) => id,
    CLIENT: ({ client }) => client,
    TENANT: ({ tenant_id: tenant }) => tenant,
    USER: ({ user_id: user }) => user,
    'MADE BY': describeMaker,
    TOOLS: ({ tools }) => tools.join(','),
    TOOLSET: ({ toolset }) => toolset ?? '',
    ROLES: ({ roles }) => roles.join(','),
    STATE: describeState,
    NOTE: ({ note }) => note ?? '',
    'LAST USED': ({ last_used_at: at }) => at ?? 'never',
  };
  return printTable(context, await context.gateway().request('GET /api/v1/keys'), columns, 'No keys');
}

async function create({ gateway, json, terminal, line }: CommandContext, client: string): Promise<number> {
  const roles = ['admin', 'operator'].filter((role) => hasSwitch(line, role)).concat(listOption(line, 'roles') ?? []);
  const expires = optionValue(line, 'expires');
  const request: NewKey = {
    client,
    // Only keys of tenant operator can have that role.
    tenant_id: optionValue(line, 'tenant') ?? (roles.includes('operator') ? 'operator' : undefined),
    user_id: optionValue(line, 'user'),
    service_account: optionValue(line, 'service'),
    tools: listOption(line, 'tools'),
    projects: listOption(line, 'projects'),
    toolset: optionValue(line, 'toolset'),
    tier: optionValue(line, 'tier'),
    mcp_mode: optionValue(line, 'mcp-mode') as NewKey['mcp_mode'],
    note: optionValue(line, 'note'),
    expires_in_seconds: expires === undefined ? undefined : parseDuration(expires),
    roles: roles.length > 0 ? roles : undefined,
  };
  const body = await gateway().request('POST /api/v1/keys', { body: request });
  const lives = body.expires_at ? describeState(body) : 'until it is revoked';
  showOnce({ json, terminal }, body, body.token, `Key ${body.id} for ${body.client}, ${lives}`);
  for (const warning of body.warnings) terminal.error(`Warning: ${warning}\n`);
  return EXIT.ok;
}

async function revoke({ gateway, json, terminal, line }: CommandContext, id: string): Promise<number> {
  const query = { children: hasSwitch(line, 'children') || undefined };
  const body = await gateway().request('DELETE /api/v1/keys/{id}', { path: { id }, query });
  for (const revoked of body?.revoked ?? [id])
    terminal.out(json ? `${jsonText({ id: revoked, revoked: true })}\n` : `Revoked ${revoked}\n`);
  return EXIT.ok;
}

/** The chain to the key: the person, and the key with which it was made. */
function describeMaker({ person, parent_id: parent }: ApiKey): string {
  const who = person.kind === 'operator' ? 'an operator' : person.user_id;
  return parent === null ? who : `${who}, ${parent}`;
}

function describeState(key: ApiKey): string {
  if (key.revoked_at) return 'revoked';
  if (!key.expires_at) return 'valid';
  return Date.parse(key.expires_at) < Date.now() ? 'expired' : `until ${key.expires_at.slice(0, 10)}`;
}

function parseDuration(text: string): number {
  const [, amount, unit] = /^(\d+)([smhd])$/.exec(text) ?? [];
  if (amount === undefined || unit === undefined)
    throw new CliError('--expires must be a duration such as 12h or 30d', EXIT.usage);
  return Number(amount) * (UNIT_SECONDS[unit] ?? 1);
}
