import type { RouteRequest, SourceStatus } from '@toolfleet/client';
import { suggestion } from '@toolfleet/contracts/text';
import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import type { Gateway } from '../gateway.js';
import { facts, jsonText, paint, table, type Terminal } from '../terminal.js';
import { addSource } from './add-source.js';
import { showFindings } from './source-findings.js';

/** `fleetctl sources`. */
export const sources: Command = {
  usage:
    'sources [list] | sources show <source> | sources add <url|file|command> | sources add mcp <name> <url> | sources add openapi <name> <url|file> | sources refresh <source> | sources remove <source>',
  options: [
    ['--name <name>', 'add <url|file|command>: instead of a name made from it'],
    ['--allow', 'add: lets the fleet that npm start runs here connect to the source, or start the command'],
    ['--header <"Name: value">', 'add: sent with every request to the source; may be repeated'],
    ['--prefix <text>', 'add: names the tools <text>_<tool>; by default the name of the source, "" for none'],
    ['--fields <JSON>', 'add: further fields of the registration; @file reads a file, - standard input'],
    ['--visibility <fleet>', 'add: shares the tools with all tenants (operators)'],
  ],
  verbs: ['list', 'show', 'add', 'refresh', 'remove'],
  known: ['name', 'allow', 'header', 'prefix', 'fields', 'visibility'],
  async complete([verb, ...given], gateway) {
    if (verb === 'add') return given.length === 0 ? ['mcp', 'openapi'] : [];
    return verb === 'list' || given.length > 0 ? [] : (await listSources(gateway)).map(({ id }) => id);
  },
  async run(context) {
    const [verb = 'list', ...rest] = context.words;
    const { length: afterDashes } = context.line.rest;
    const adds = afterDashes > 0 ? [0] : [1, 3];
    const counts = { list: [0], show: [1], add: adds, refresh: [1], remove: [1] }[verb];
    if (!counts?.includes(rest.length)) throw new CliError(`usage: fleetctl ${sources.usage}`, EXIT.usage);
    if (verb === 'list') return list(context);
    if (verb === 'add') return addSource(context, rest);
    const gateway = context.gateway();
    const source = await findSource(gateway, rest[0] as string);
    if (verb === 'remove') return remove(context, gateway, source);
    const body =
      verb === 'show'
        ? await gateway.request('GET /api/v1/sources/{kind}/{name}', target(source))
        : await gateway.request('POST /api/v1/sources/{kind}/{name}/refresh', target(source));
    if (context.json) context.terminal.out(`${jsonText(body, 2)}\n`);
    else show(context.terminal, body);
    return verb === 'refresh' && body.state !== 'ok' ? EXIT.failed : EXIT.ok;
  },
};

async function list({ gateway, json, terminal }: CommandContext): Promise<number> {
  const found = await listSources(gateway());
  if (json) terminal.out(`${jsonText(found, 2)}\n`);
  else if (found.length === 0) terminal.out('No sources\n');
  else {
    const rows = found.map((source) => [
      source.id,
      source.origin,
      source.state,
      source.tool_count,
      source.quarantined.length,
      shortTime(source.last_look_at),
      shortTime(source.next_look_at),
      source.last_error ?? '',
    ]);
    const head = ['SOURCE', 'ORIGIN', 'STATE', 'TOOLS', 'QUARANTINED', 'LAST LOOK', 'NEXT LOOK', 'ERROR'];
    terminal.out(table(head, rows, terminal.width));
  }
  return EXIT.ok;
}

async function remove({ json, terminal }: CommandContext, gateway: Gateway, source: SourceStatus): Promise<number> {
  const body = await gateway.request('DELETE /api/v1/sources/{kind}/{name}', target(source));
  terminal.out(
    json ? `${jsonText(body, 2)}\n` : `Removed ${source.id} and its tools: ${body.removed.join(', ') || 'none'}\n`,
  );
  return EXIT.ok;
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

/** The source with this id or name. @throws CliError when there is none, or several have the name */
async function findSource(gateway: Gateway, name: string): Promise<SourceStatus> {
  const all = await listSources(gateway);
  const exact = all.find(({ id }) => id === name);
  const named = exact ? [exact] : all.filter((source) => source.name === name);
  if (named.length > 1)
    throw new CliError(`Several sources are called ${name}: ${named.map(({ id }) => id).join(', ')}`, EXIT.usage);
  if (named[0]) return named[0];
  const known = all.flatMap((source) => [source.name, source.id]);
  throw new CliError(
    `No source ${JSON.stringify(name)}${suggestion(name, known)} (see "fleetctl sources")`,
    EXIT.failed,
  );
}

function target({ id, kind, tenant }: SourceStatus): RouteRequest<'GET /api/v1/sources/{kind}/{name}'> {
  const name = id.slice(kind.length + 1);
  return { path: { kind, name }, query: tenant === null ? { visibility: 'fleet' } : {} };
}

function shortTime(instant: string | null): string {
  return instant === null ? '-' : instant.replace(/\.\d+Z$/, 'Z');
}
