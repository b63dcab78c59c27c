import type { ShownToolset, ToolsetSpec, ToolsetSummary } from '@toolfleet/client';
import { CliError, EXIT } from '../cli-error.js';
import {
  type Columns,
  type Command,
  type CommandContext,
  findNamed,
  noun,
  print as printAnswer,
  printTable,
} from '../command.js';
import { optionValue } from '../command-line.js';
import type { Gateway } from '../gateway.js';
import { facts, jsonText, paint, type Terminal } from '../terminal.js';
import { readJsonObject } from '../tool-arguments.js';

/** `fleetctl toolsets`. */
export const toolsets: Command = noun(
  'toolsets',
  {
    list: { run: list },
    show: {
      words: '<toolset> [version]',
      async run(context, name = '', version?: string) {
        const { path, query } = await targetOf(context, name);
        const asked = version === undefined ? undefined : versionOf(version);
        const sent = { path, query: { ...query, version: asked } };
        return print(context, await context.gateway().request('GET /api/v1/toolsets/{name}', sent));
      },
    },
    put: {
      words: '<name> <JSON>',
      usage: `<name> '{"include": {"tools": ["crm_*"]}}'`,
      options: [['--visibility <fleet>', 'shared with all tenants (operators)']],
      run: put,
    },
    rollback: {
      words: '<toolset> <version>',
      async run(context, name = '', text = '') {
        const sent = { ...(await targetOf(context, name)), body: { version: versionOf(text) } };
        return print(context, await context.gateway().request('POST /api/v1/toolsets/{name}/rollback', sent));
      },
    },
    approve: {
      words: '<toolset> <tool> <revision>',
      async run(context, name = '', tool = '', pending_revision = '') {
        const sent = { ...(await targetOf(context, name)), body: { tool, pending_revision } };
        return print(context, await context.gateway().request('POST /api/v1/toolsets/{name}/approve', sent));
      },
    },
    remove: {
      words: '<toolset>',
      async run(context, name = '') {
        const sent = await targetOf(context, name);
        const body = await context.gateway().request('DELETE /api/v1/toolsets/{name}', sent);
        return printAnswer(context, body, `Removed ${body.removed}`);
      },
    },
  },
  async ([verb, ...given], gateway) =>
    verb === 'list' || given.length > 0 ? [] : (await listToolsets(gateway)).map(({ id }) => id),
);

async function list(context: CommandContext): Promise<number> {
  const columns: Columns<ToolsetSummary> = {
    TOOLSET: ({ id }) => id,
    VERSION: ({ version }) => version,
    ORIGIN: ({ origin }) => origin,
    HIDDEN: ({ quarantined }) => quarantined.length,
    BY: ({ created_by: by }) => by,
    DESCRIPTION: ({ description }) => description ?? '',
  };
  return printTable(context, await listToolsets(context.gateway()), columns, 'No toolsets');
}

/** @throws CliError unless the text is a positive integer */
function versionOf(text: string): number {
  const version = Number(text);
  if (Number.isInteger(version) && version > 0) return version;
  throw new CliError(`The version must be a positive integer, not ${JSON.stringify(text)}`, EXIT.usage);
}

const targetOf = async ({ gateway }: CommandContext, name: string) =>
  target(findNamed('toolset', await listToolsets(gateway()), name));

async function put(context: CommandContext, name = '', source = ''): Promise<number> {
  const spec = await readJsonObject(source, '--toolset', () => context.terminal.readInput());
  const visibility = optionValue(context.line, 'visibility') as 'tenant' | 'fleet' | undefined;
  const sent = { path: { name }, query: { visibility }, body: spec as ToolsetSpec };
  return print(context, await context.gateway().request('PUT /api/v1/toolsets/{name}', sent));
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

function target({ id, tenant }: ToolsetSummary): { path: { name: string }; query: { visibility?: 'fleet' } } {
  return { path: { name: id }, query: tenant === null ? { visibility: 'fleet' } : {} };
}
