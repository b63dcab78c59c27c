import { existsSync, readFileSync } from 'node:fs';
import { basename, extname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { RouteAnswer, SourceStatus } from '@toolfleet/client';
import type { JsonObject } from '@toolfleet/contracts';
import { CliError, EXIT } from '../cli-error.js';
import { hasSwitch, optionValue, optionValues } from '../command-line.js';
import { isLocal } from '../connection.js';
import type { CommandContext } from '../command.js';
import { getTool, type Gateway } from '../gateway.js';
import { jsonText, plain } from '../terminal.js';
import { readJsonObject } from '../tool-arguments.js';
import { addCommand, commandName, describeServer, serverName } from './add-command.js';
import { exampleCall } from './tools.js';
import { showFindings } from './source-findings.js';

/** Longest `name_prefix` of a document. */
const MAX_PREFIX = 40;
/** A running fleet reads its file of allowed origins every second. */
const ALLOWED_WITHIN_MS = 10_000;
const RETRY_EVERY_MS = 250;

/** A source to add: its kind, its name, and the URL or file. */
interface Wanted {
  kind: 'mcp' | 'openapi';
  name: string;
  where: string;
  /** Origins that the fleet has to connect to. */
  origins: readonly string[];
}

/** The answer to a registration; documents name their tools in `operations_registered`, servers in `registered`. */
type Registered = Partial<RouteAnswer<'POST /api/v1/sources/openapi'> & RouteAnswer<'POST /api/v1/sources/mcp'>> & {
  message: string;
};

/** `fleetctl sources add`: a kind, a name and a URL or file; or only a URL, a file or a command. */
export async function addSource(context: CommandContext, words: readonly string[]): Promise<number> {
  const { gateway, terminal, line } = context;
  const command = commandOf(words, line.rest);
  if (command) {
    const nameFor = (server: string) =>
      optionValue(line, 'name') ?? toName(telling(commandName(command), server), command.join(' '));
    const { tools = [], ...source } = await addCommand(context, command, nameFor, isLocal(gateway().connection));
    return showAdded(context, {
      message: `The fleet has started ${source.name} with ${tools.length} tools`,
      ...source,
      registered: tools,
    });
  }
  const headers = Object.fromEntries(optionValues(line, 'header').map(toHeader));
  const wanted = words.length === 1 ? await discover(context, words[0]!, headers) : readWanted(words);
  const { kind, name, where } = wanted;
  const fields = await readJsonObject(optionValue(line, 'fields'), '--fields', () => terminal.readInput());
  const body: JsonObject = { ...fields, ...(kind === 'mcp' ? { url: where } : readDocument(where)), name };
  if (Object.keys(headers).length > 0) body[kind === 'mcp' ? 'headers' : 'extra_headers'] = headers;
  const visibility = optionValue(line, 'visibility');
  if (visibility !== undefined) body['visibility'] = visibility;
  Object.assign(body, kind === 'mcp' ? mcpPrefix(line) : await openApiPrefix(line, name, fields, gateway()));
  const waitMs = hasSwitch(line, 'allow') ? await allow(gateway(), wanted.origins) : 0;
  return showAdded(context, { name, ...(await register(gateway(), wanted, body, waitMs)) });
}

/** The command line of a local server: what follows `--`, or one argument that is neither a URL nor a file. */
function commandOf(words: readonly string[], rest: readonly string[]): readonly string[] | undefined {
  if (rest.length > 0) return rest;
  const [where = '', ...more] = words;
  const isCommand = more.length === 0 && !/^https?:\/\//i.test(where) && !existsSync(where);
  return isCommand ? where.trim().split(/\s+/) : undefined;
}

/** Prints the added source, and a first call of one of its tools. */
async function showAdded(
  { gateway, json, terminal, signal }: CommandContext,
  made: Registered & { name: string },
): Promise<number> {
  if (json) {
    terminal.out(`${jsonText(made, 2)}\n`);
    return EXIT.ok;
  }
  terminal.out(`${plain(made.message)}\n`);
  showFindings(terminal, { ...made, notes: made.warnings });
  if (made.refused?.length) terminal.out(`  after a correction: fleetctl sources refresh ${made.name}\n`);
  const quarantined = new Set(made.quarantined?.map((one) => one.name));
  const first = (made.operations_registered ?? made.registered)?.find((tool) => !quarantined.has(tool));
  if (first !== undefined) terminal.out(`\n${exampleCall(await getTool(gateway(), first, signal))}\n`);
  return EXIT.ok;
}

function readWanted([kind, name, where]: readonly string[]): Wanted {
  if (kind !== 'mcp' && kind !== 'openapi')
    throw new CliError(`The kind of a source must be mcp or openapi, not ${JSON.stringify(kind)}`, EXIT.usage);
  return { kind, name: name!, where: where!, origins: originsOf(where!) };
}

/** Detects the kind of a URL or file, and prints it. The reader is imported on demand, because the converter is large. */
async function discover(
  { line, terminal }: CommandContext,
  where: string,
  headers: Readonly<Record<string, string>>,
): Promise<Wanted> {
  const { lookAt } = await import('../openapi/look.js');
  const look = await lookAt(where, headers);
  const name = optionValue(line, 'name') ?? nameOf(where, look.kind === 'openapi' ? look.title : serverName(look));
  if (look.kind === 'mcp') {
    terminal.error(`${where} is ${describeServer(look)}; adding it as ${name}\n`);
    return { kind: 'mcp', name, where, origins: originsOf(where) };
  }
  const { title, version, operations, origins } = look;
  terminal.error(
    `${where} is an OpenAPI ${version} document${title && ` (${title})`} with ${operations} operations on ${origins.join(', ') || 'its own server'}; adding it as ${name}\n`,
  );
  return { kind: 'openapi', name, where, origins: [...new Set([...originsOf(where), ...origins])] };
}

const originsOf = (where: string): string[] => (/^https?:/i.test(where) ? [new URL(where).origin] : []);

/** Names of files and programs that say nothing about their content. */
const GENERIC = /^(openapi|swagger|api|spec|schema|index|main|server|app|mcp|stdio)$/i;

const telling = (name: string, title: string): string => (GENERIC.test(name) && title !== '' ? title : name);

/** A name for a source: its file's, or its host's without `www`, `api`, `mcp` and the top-level domain, or its title. */
function nameOf(where: string, title: string): string {
  const url = /^https?:/i.test(where) ? new URL(where) : undefined;
  const labels = url && !/^[\d.]+$|^\[|^localhost$/.test(url.hostname) ? url.hostname.split('.') : [];
  const told = labels.filter((label) => !/^(www|api|mcp)$/.test(label));
  const text = url ? (told.at(-2) ?? told[0] ?? title) : telling(basename(where, extname(where)), title);
  return toName(text, where);
}

/** The part of a text that can name a source. @throws CliError when nothing is left */
function toName(text: string, where: string): string {
  const name = text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
    .slice(0, MAX_PREFIX - 1);
  if (name === '') throw new CliError(`Choose a name for ${where}: --name NAME`, EXIT.usage);
  return name;
}

/** Lets the fleet that `npm start` runs connect to origins. @returns how long its services may take to notice */
async function allow(gateway: Gateway, origins: readonly string[]): Promise<number> {
  if (!isLocal(gateway.connection))
    throw new CliError(
      '--allow is for the fleet that npm start runs here; ask the operator of another one',
      EXIT.usage,
    );
  if (origins.length === 0) return 0;
  await gateway.request('POST /api/v1/sources/allow', { body: { origins: [...origins] } });
  return ALLOWED_WITHIN_MS;
}

/** Registers a source, again and again for a while if the fleet still refuses its address. */
async function register(
  gateway: Gateway,
  { kind, origins }: Wanted,
  body: JsonObject,
  waitMs: number,
): Promise<Registered> {
  for (const until = performance.now() + waitMs; ; await pause(RETRY_EVERY_MS)) {
    try {
      return await gateway.request(`POST /api/v1/sources/${kind}`, { body });
    } catch (error) {
      const isRefused = error instanceof CliError && error.message.includes('egress guard');
      if (isRefused && waitMs === 0 && isLocal(gateway.connection))
        throw new CliError(
          `The fleet connects to no private address, or plain http, that you have not allowed${origins.length === 0 ? '' : `: ${origins.join(', ')}`}\n  --allow lets the fleet that npm start runs here connect to it.`,
          EXIT.failed,
        );
      if (!isRefused || performance.now() >= until) throw error;
    }
  }
}

/** Servers have the name of the source as their prefix by default. */
function mcpPrefix(line: CommandContext['line']): JsonObject {
  const prefix = optionValue(line, 'prefix');
  return prefix === undefined ? {} : { prefix };
}

/**
 * The API names the tools of a document like its operations, shared by many documents. The tools of a source that is registered
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
  const sources: SourceStatus[] = await gateway.request('GET /api/v1/sources');
  const known = sources.some((source) => source.kind === 'openapi' && source.name === name);
  return known ? {} : { name_prefix: `${name.slice(0, MAX_PREFIX - 1)}_` };
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
