import { readFileSync } from 'node:fs';
import type { RouteAnswer, RouteRequest, SourceStatus } from '@toolfleet/client';
import type { JsonObject } from '@toolfleet/contracts';
import { suggestion } from '@toolfleet/contracts/text';
import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import { optionValue, optionValues } from '../command-line.js';
import type { Gateway } from '../gateway.js';
import { jsonText, paint, plain, table, type Terminal } from '../terminal.js';
import { readJsonObject } from '../tool-arguments.js';

/** `fleetctl sources`. */
export const sources: Command = {
  usage:
    'sources [list] | sources show <source> | sources add mcp <name> <url> | sources add openapi <name> <url|file> | sources refresh <source> | sources remove <source>',
  summary: 'Manage sources of tools: administrators of their tenant, operators of all',
  options: [
    ['--header <"Name: value">', 'add: sent with every request to the source; may be repeated'],
    ['--prefix <text>', 'add: names the tools <text>_<tool>; by default the name of the source, "" for none'],
    ['--fields <JSON>', 'add: further fields of the registration; @file reads a file, - standard input'],
    ['--visibility <fleet>', 'add: shares the tools with all tenants (operators)'],
  ],
  verbs: ['list', 'show', 'add', 'refresh', 'remove'],
  known: ['header', 'prefix', 'fields', 'visibility'],
  async complete([verb, ...given], gateway) {
    if (verb === 'add') return given.length === 0 ? ['mcp', 'openapi'] : [];
    return verb === 'list' || given.length > 0 ? [] : (await listSources(gateway)).map(({ id }) => id);
  },
  async run(context) {
    const [verb = 'list', ...rest] = context.words;
    const most = { list: 0, show: 1, add: 3, refresh: 1, remove: 1 }[verb];
    if (most === undefined || rest.length !== most) throw new CliError(`usage: fleetctl ${sources.usage}`, EXIT.usage);
    if (verb === 'list') return list(context);
    if (verb === 'add') return add(context, rest as [string, string, string]);
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

/** Longest `name_prefix` of a document. */
const MAX_PREFIX = 40;

/** The answer to a registration. */
type Registered = Pick<RouteAnswer<'POST /api/v1/sources/openapi'>, 'message' | 'quarantined' | 'refused' | 'warnings'>;

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

async function add({ gateway, json, terminal, line }: CommandContext, [kind, name, where]: [string, string, string]) {
  if (kind !== 'mcp' && kind !== 'openapi')
    throw new CliError(`The kind of a source must be mcp or openapi, not ${JSON.stringify(kind)}`, EXIT.usage);
  const visibility = optionValue(line, 'visibility');
  const fields = await readJsonObject(optionValue(line, 'fields'), '--fields', () => terminal.readInput());
  const headers = Object.fromEntries(optionValues(line, 'header').map(toHeader));
  const location = kind === 'mcp' ? { url: where } : readDocument(where);
  const body: JsonObject = { ...fields, ...location, name };
  if (Object.keys(headers).length > 0) body[kind === 'mcp' ? 'headers' : 'extra_headers'] = headers;
  if (visibility !== undefined) body['visibility'] = visibility;
  Object.assign(body, kind === 'mcp' ? mcpPrefix(line) : await openApiPrefix(line, name, fields, gateway()));
  const made: Registered = await gateway().request(`POST /api/v1/sources/${kind}`, { body });
  if (json)
    terminal.out(`${jsonText(made, 2)}
`);
  else {
    terminal.out(`${plain(made.message)}
`);
    showFindings(terminal, { ...made, notes: made.warnings });
    if (made.refused?.length)
      terminal.out(`  after a correction: fleetctl sources refresh ${name}
`);
  }
  return EXIT.ok;
}

/** Servers have the name of the source as their prefix by default. */
function mcpPrefix(line: CommandContext['line']): JsonObject {
  const prefix = optionValue(line, 'prefix');
  return prefix === undefined ? {} : { prefix };
}

/**
 * The API names the tools of a document like its operations, which many documents share. The tools of a source that is registered
 * again keep the names that callers know.
 */
async function openApiPrefix(
  line: CommandContext['line'],
  name: string,
  fields: JsonObject,
  gateway: Gateway,
): Promise<JsonObject> {
  const prefix = optionValue(line, 'prefix');
  if (prefix !== undefined) return { name_prefix: prefix && `${prefix}_` };
  if (fields['name_prefix'] !== undefined) return {};
  const known = (await listSources(gateway)).some((source) => source.kind === 'openapi' && source.name === name);
  return known ? {} : { name_prefix: `${name.slice(0, MAX_PREFIX - 1)}_` };
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
  terminal.out(`${paint(terminal, 'bold', source.id)}\n`);
  for (const [label, value] of rows) terminal.out(`  ${label.padEnd(13)}${plain(value)}\n`);
  showFindings(terminal, source);
}

/** The MCP revision in use, and the one before it; nothing for other kinds of sources. */
function protocolRows({ protocol_version: version, protocol_switch: change }: SourceStatus): [string, string][] {
  if (version === undefined) return [];
  return [['protocol', change ? `${version} (${change.from} until ${shortTime(change.at)})` : version]];
}

/** What a registration left to do: tools that await approval, those refused, and notes. */
function showFindings(
  terminal: Terminal,
  source: Partial<Pick<SourceStatus, 'quarantined' | 'refused' | 'notes'>>,
): void {
  for (const { name, reason } of source.quarantined ?? [])
    terminal.out(`  quarantined  ${plain(`${name}: ${reason} (fleetctl approvals show ${name})`)}\n`);
  for (const { name, code, message } of source.refused ?? [])
    terminal.out(`  refused      ${plain(`${name}: ${message} (${code})`)}\n`);
  for (const note of source.notes ?? []) terminal.out(`  note         ${plain(note)}\n`);
}

function listSources(gateway: Gateway): Promise<SourceStatus[]> {
  return gateway.request('GET /api/v1/sources');
}

/** The source with this id or name. @throws CliError when there is none, or the name is that of several */
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

/** A document on the web is read by the fleet, and read again when it changes; a local file is sent in the registration. */
function readDocument(where: string): JsonObject {
  if (/^https?:\/\//i.test(where)) return { spec_url: where };
  try {
    return { spec_inline: readFileSync(where, 'utf8') };
  } catch (error) {
    throw new CliError(`Cannot read ${where}: ${(error as Error).message}`, EXIT.usage);
  }
}

function toHeader(text: string): [string, string] {
  const [, name, value] = /^([^:\s]+):\s*(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new CliError(`--header must be "Name: value", not ${JSON.stringify(text)}`, EXIT.usage);
  return [name, value];
}

function shortTime(instant: string | null): string {
  return instant === null ? '-' : instant.replace(/\.\d+Z$/, 'Z');
}
