import type { RouteRequest, SourceStatus } from '@toolfleet/client';
import { EXIT } from '../cli-error.js';
import {
  type Columns,
  type Command,
  type CommandContext,
  findNamed,
  noun,
  type Options,
  print,
  printTable,
} from '../command.js';
import { isLocal } from '../connection.js';
import type { Gateway } from '../gateway.js';
import { facts, jsonText, paint, type Terminal } from '../terminal.js';
import { addSource, setSource } from './add-source.js';
import { CHANGE_OPTIONS } from './change-source.js';
import { showFindings } from './source-findings.js';

/** Names of removed tools that are shown. */
const MAX_NAMES = 20;
const PLACE_OPTIONS: Options = [
  ['--header <"Name: value">', 'sent with every request to the source; may be repeated'],
  ['--prefix <text>', 'names the tools <text>_<tool>; by default the name of the source, "" for none'],
];

/** `fleetctl sources`. */
export const sources: Command = noun(
  'sources',
  {
    list: { run: list },
    show: { words: '<source>', run: (context, name) => look(context, name!, 'show') },
    add: {
      words: '<url|file|command> | -- <command> … | mcp <name> <url> | openapi <name> <url|file>',
      options: [
        ['--name <name>', 'of a URL, file or command: instead of a name made from it'],
        ['--allow', 'lets the fleet that npm start runs here connect to the source, or start the command'],
        ...PLACE_OPTIONS,
        ['--fields <JSON>', 'further fields of the registration; @file reads a file, - standard input'],
        ['--visibility <fleet>', 'shares the tools with all tenants (operators)'],
        ['--replace', 'keeps nothing of a source of this name; by default other fields stay'],
        ...CHANGE_OPTIONS,
      ],
      run: (context, ...words) => addSource(context, words),
    },
    set: {
      words: '<source> [field=value] …',
      usage: '<source> <field>=<value> …',
      options: [...PLACE_OPTIONS, ...CHANGE_OPTIONS],
      run: async (context, name, ...words) => setSource(context, await findSource(context.gateway(), name!), words),
    },
    refresh: { words: '<source>', run: (context, name) => look(context, name!, 'refresh') },
    remove: { words: '<source>', run: (context, name) => remove(context, name!) },
  },
  async ([verb, ...given], gateway) => {
    if (verb === 'add') return given.length === 0 ? ['mcp', 'openapi'] : [];
    return verb === 'list' || given.length > 0 ? [] : (await listSources(gateway)).map(({ id }) => id);
  },
);

async function list(context: CommandContext): Promise<number> {
  const columns: Columns<SourceStatus> = {
    SOURCE: (one) => one.id,
    ORIGIN: (one) => one.origin,
    STATE: (one) => one.state,
    TOOLS: (one) => one.tool_count,
    QUARANTINED: (one) => one.quarantined.length,
    'LAST LOOK': (one) => shortTime(one.last_look_at),
    'NEXT LOOK': (one) => shortTime(one.next_look_at),
    ERROR: (one) => one.last_error ?? '',
  };
  return printTable(context, await listSources(context.gateway()), columns, 'No sources');
}

async function look(context: CommandContext, name: string, verb: 'show' | 'refresh'): Promise<number> {
  const gateway = context.gateway();
  const sent = target(await findSource(gateway, name));
  const body =
    verb === 'show'
      ? await gateway.request('GET /api/v1/sources/{kind}/{name}', sent)
      : await gateway.request('POST /api/v1/sources/{kind}/{name}/refresh', sent);
  if (context.json) context.terminal.out(`${jsonText(body, 2)}\n`);
  else show(context.terminal, body);
  return verb === 'refresh' && body.state !== 'ok' ? EXIT.failed : EXIT.ok;
}

/** Removes a registration, or the entry that `sources add` wrote into the file of the fleet that runs here. */
async function remove(context: CommandContext, name: string): Promise<number> {
  const gateway = context.gateway();
  const source = await findSource(gateway, name);
  if (source.origin === 'config' && isLocal(gateway.connection)) {
    const { removeCommand } = await import('./add-command.js');
    const file = await removeCommand(gateway.connection, source.name);
    if (file !== undefined)
      return print(context, { file }, `Removed ${source.id} from ${file}; its tools end within seconds`);
  }
  const body = await gateway.request('DELETE /api/v1/sources/{kind}/{name}', target(source));
  const { removed } = body;
  const names =
    removed.length > MAX_NAMES
      ? `${removed.slice(0, MAX_NAMES).join(', ')} and ${removed.length - MAX_NAMES} more`
      : removed.join(', ');
  return print(context, body, `Removed ${source.id} and its tools: ${names || 'none'}`);
}

function show(terminal: Terminal, source: SourceStatus): void {
  const rows: [string, string][] = [
    ['state', source.state],
    ['declared by', source.origin],
    ['visible to', source.tenant ?? 'all tenants'],
    ['location', source.location ?? '-'],
    ['last look', shortTime(source.last_look_at)],
    ['last success', shortTime(source.last_success_at)],
    ['next look', shortTime(source.next_look_at)],
    ...protocolRows(source),
    ['error', source.last_error ?? '-'],
    ['tools', source.tools?.join(', ') || '-'],
  ];
  terminal.out(`${paint(terminal, 'bold', source.id)}\n${facts(rows, 13, '  ')}`);
  showFindings(terminal, source);
}

/** The MCP revision in use, and the one before it; nothing for other kinds of sources. */
function protocolRows({ protocol_version: version, protocol_switch: change }: SourceStatus): [string, string][] {
  if (version === undefined) return [];
  return [['protocol', change ? `${version} (${change.from} until ${shortTime(change.at)})` : version]];
}

function listSources(gateway: Gateway): Promise<SourceStatus[]> {
  return gateway.request('GET /api/v1/sources');
}

const findSource = async (gateway: Gateway, name: string) => findNamed('source', await listSources(gateway), name);

function target({ id, kind, tenant }: SourceStatus): RouteRequest<'GET /api/v1/sources/{kind}/{name}'> {
  const name = id.slice(kind.length + 1);
  return { path: { kind, name }, query: tenant === null ? { visibility: 'fleet' } : {} };
}

function shortTime(instant: string | null): string {
  return instant === null ? '-' : instant.replace(/\.\d+Z$/, 'Z');
}
