import type { ShownToolset, ToolsetSpec, ToolsetSummary } from '@toolfleet/client';
import { suggestion } from '@toolfleet/contracts/text';
import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import { optionValue } from '../command-line.js';
import type { Gateway } from '../gateway.js';
import { facts, jsonText, paint, table, type Terminal } from '../terminal.js';
import { readJsonObject } from '../tool-arguments.js';

/** `fleetctl toolsets`. */
export const toolsets: Command = {
  usage:
    'toolsets [list] | toolsets show <toolset> [version] | toolsets put <name> \'{"include": {"tools": ["crm_*"]}}\' | toolsets rollback <toolset> <version> | toolsets approve <toolset> <tool> <revision> | toolsets remove <toolset>',
  options: [['--visibility <fleet>', 'put: shared with all tenants (operators)']],
  verbs: ['list', 'show', 'put', 'rollback', 'approve', 'remove'],
  known: ['visibility'],
  async complete([verb, ...given], gateway) {
    return verb === 'list' || given.length > 0 ? [] : (await listToolsets(gateway)).map(({ id }) => id);
  },
  async run(context) {
    const [verb = 'list', ...rest] = context.words;
    const most = { list: 0, show: 2, put: 2, rollback: 2, approve: 3, remove: 1 }[verb];
    const least = verb === 'show' ? 1 : most;
    if (most === undefined || least === undefined || rest.length > most || rest.length < least)
      throw new CliError(`usage: fleetctl ${toolsets.usage}`, EXIT.usage);
    if (verb === 'list') return list(context);
    const gateway = context.gateway();
    if (verb === 'put') return put(context, gateway, rest as [string, string]);
    const found = await findToolset(gateway, rest[0] as string);
    if (verb === 'remove') {
      const body = await gateway.request('DELETE /api/v1/toolsets/{name}', target(found));
      context.terminal.out(context.json ? `${jsonText(body, 2)}\n` : `Removed ${body.removed}\n`);
      return EXIT.ok;
    }
    if (verb === 'show') {
      const { path, query } = target(found);
      const version = rest[1] as number | undefined; // the gateway refuses other text than a number
      return print(
        context,
        await gateway.request('GET /api/v1/toolsets/{name}', { path, query: { ...query, version } }),
      );
    }
    if (verb === 'rollback') {
      const version = Number(rest[1]);
      if (!Number.isInteger(version) || version < 1)
        throw new CliError(`The version must be a positive integer, not ${JSON.stringify(rest[1])}`, EXIT.usage);
      return print(
        context,
        await gateway.request('POST /api/v1/toolsets/{name}/rollback', { ...target(found), body: { version } }),
      );
    }
    const [, tool = '', revision = ''] = rest;
    const sent = { ...target(found), body: { tool, pending_revision: revision } };
    return print(context, await gateway.request('POST /api/v1/toolsets/{name}/approve', sent));
  },
};

async function list({ gateway, json, terminal }: CommandContext): Promise<number> {
  const found = await listToolsets(gateway());
  if (json) terminal.out(`${jsonText(found, 2)}\n`);
  else if (found.length === 0) terminal.out('No toolsets\n');
  else {
    const rows = found.map((toolset) => [
      toolset.id,
      toolset.version,
      toolset.origin,
      toolset.quarantined.length,
      toolset.created_by,
      toolset.description ?? '',
    ]);
    terminal.out(table(['TOOLSET', 'VERSION', 'ORIGIN', 'HIDDEN', 'BY', 'DESCRIPTION'], rows, terminal.width));
  }
  return EXIT.ok;
}

async function put(context: CommandContext, gateway: Gateway, [name, source]: [string, string]): Promise<number> {
  const spec = await readJsonObject(source, '--toolset', () => context.terminal.readInput());
  const visibility = optionValue(context.line, 'visibility') as 'tenant' | 'fleet' | undefined;
  const sent = { path: { name }, query: { visibility }, body: spec as ToolsetSpec };
  return print(context, await gateway.request('PUT /api/v1/toolsets/{name}', sent));
}

function print({ json, terminal }: CommandContext, body: ShownToolset): number {
  if (json) terminal.out(`${jsonText(body, 2)}\n`);
  else show(terminal, body);
  return EXIT.ok;
}

function show(terminal: Terminal, toolset: ShownToolset): void {
  const rows: [string, string][] = [
    ['version', `${toolset.version} of ${toolset.created_at.slice(0, 19)}Z by ${toolset.created_by}`],
    ['declared by', toolset.origin],
    ['used by', toolset.tenant ?? 'all tenants'],
    ['description', toolset.description ?? '-'],
    ['tools', toolset.tools?.join(', ') || '-'],
  ];
  for (const { name, reason, pending_revision: revision } of toolset.quarantined)
    rows.push(['hidden', `${name}: ${reason} (fleetctl toolsets approve ${toolset.id} ${name} ${revision})`]);
  for (const note of toolset.notes) rows.push(['note', note]);
  for (const { version, created_at: at, created_by: by, restores } of toolset.versions) {
    const restored = restores === undefined ? '' : `, restores ${restores}`;
    rows.push([`version ${version}`, `${at.slice(0, 19)}Z by ${by}${restored}`]);
  }
  terminal.out(`${paint(terminal, 'bold', toolset.id)}\n${facts(rows, 13, '  ')}`);
  terminal.out(`${jsonText(toolset.spec, 2)}\n`);
}

function listToolsets(gateway: Gateway): Promise<ToolsetSummary[]> {
  return gateway.request('GET /api/v1/toolsets');
}

/** The toolset with this id or name. @throws CliError when there is none, or several have the name */
async function findToolset(gateway: Gateway, name: string): Promise<ToolsetSummary> {
  const all = await listToolsets(gateway);
  const exact = all.find(({ id }) => id === name);
  const named = exact ? [exact] : all.filter((toolset) => toolset.name === name);
  if (named.length > 1)
    throw new CliError(`Several toolsets are called ${name}: ${named.map(({ id }) => id).join(', ')}`, EXIT.usage);
  if (named[0]) return named[0];
  const known = all.flatMap((toolset) => [toolset.name, toolset.id]);
  const hint = `${suggestion(name, known)} (see "fleetctl toolsets")`;
  throw new CliError(`No toolset ${JSON.stringify(name)}${hint}`, EXIT.failed);
}

function target({ id, tenant }: ToolsetSummary): { path: { name: string }; query: { visibility?: 'fleet' } } {
  return { path: { name: id }, query: tenant === null ? { visibility: 'fleet' } : {} };
}
