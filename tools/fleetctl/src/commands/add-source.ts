import { existsSync, readFileSync } from 'node:fs';
import { basename, extname } from 'node:path';
import type { SourceStatus } from '@toolfleet/client';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { CliError, EXIT } from '../cli-error.js';
import { hasSwitch, optionValue, optionValues } from '../command-line.js';
import { isLocal } from '../connection.js';
import type { CommandContext } from '../command.js';
import { pause } from '../follow-call.js';
import { getTool, type Gateway } from '../gateway.js';
import { jsonText, plain } from '../terminal.js';
import { readJsonObject } from '../tool-arguments.js';
import { addCommand, commandName, describeServer, serverName } from './add-command.js';
import { confirmChange, readRegistration, type Registered } from './change-source.js';
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

/** `fleetctl sources add`: a kind, a name and a URL or file; or only a URL, a file or a command. */
export async function addSource(context: CommandContext, words: readonly string[]): Promise<number> {
  const { gateway, terminal, line, signal } = context;
  const command = commandOf(words, line.rest);
  if (command) {
    const nameFor = (server: string) =>
      optionValue(line, 'name') ?? toName(telling(commandName(command), server), command.join(' '));
    const { tools = [], ...source } = await addCommand(context, command, nameFor, isLocal(gateway().connection));
    return showAdded(context, {
      message: `The fleet has started ${source.name} with ${tools.filter(isTool).length} tools`,
      ...source,
      registered: tools,
    });
  }
  const headers = Object.fromEntries(optionValues(line, 'header').map(toHeader));
  const wanted = words.length === 1 ? await discover(context, words[0]!, headers) : readWanted(words);
  const { kind, name, where } = wanted;
  const fields = await readJsonObject(optionValue(line, 'fields'), '--fields', () => terminal.readInput());
  const place = kind === 'mcp' ? { url: where } : readDocument(where);
  const known = await knownSource(context, kind, name);
  const before = known && !hasSwitch(line, 'replace') ? (await readRegistration(gateway(), known)).registration : {};
  const { spec_url: _url, spec_inline: _document, url: _server, ...kept } = before;
  const body: JsonObject = {
    ...kept,
    ...fields,
    ...place,
    ...sourceOptions(context, kind, kept),
    name,
  };
  if (kind === 'openapi' && body['name_prefix'] === undefined && (!known || hasSwitch(line, 'replace')))
    body['name_prefix'] = `${name.slice(0, MAX_PREFIX - 1)}_`;
  if (known?.tenant === null) body['visibility'] ??= 'fleet';
  const waitMs = hasSwitch(line, 'allow') ? await allow(gateway(), wanted.origins) : 0;
  const send = (query?: { preview: true }) => register({ gateway: gateway(), signal }, wanted, body, waitMs, query);
  if (known && !(await confirmChange(context, known, body, () => send({ preview: true })))) return EXIT.ok;
  return showAdded(context, { name, ...(await send()) });
}

/** `fleetctl sources set`: fields as `name=value`, members of objects as `auth_config.value=…`; without a value a field goes. */
export async function setSource(context: CommandContext, source: SourceStatus, words: string[]): Promise<number> {
  const { gateway, line } = context;
  const { kind, name, tenant, origin } = source;
  if (origin !== 'api' || (kind !== 'mcp' && kind !== 'openapi'))
    throw new CliError(`${source.id} is not registered but declared (${origin}); change it there`, EXIT.usage);
  const { registration } = await readRegistration(gateway(), source);
  const body: JsonObject = { ...registration, ...sourceOptions(context, kind, registration), name };
  for (const word of words) setField(body, word);
  if (tenant === null) body['visibility'] = 'fleet';
  if (words.length === 0 && !['header', 'prefix'].some((option) => hasSwitch(line, option)))
    throw new CliError('Name what to set: <field>=<value>, --header or --prefix', EXIT.usage);
  const send = (query?: { preview: true }): Promise<Registered> =>
    gateway().request(`POST /api/v1/sources/${kind}`, { body, query });
  if (!(await confirmChange(context, source, body, () => send({ preview: true })))) return EXIT.ok;
  return showAdded(context, { name, ...(await send()) });
}

/** `a.b=value`, where the value is JSON or else text. @throws CliError */
function setField(body: JsonObject, word: string): void {
  const [, path, value] = /^([\w.-]+)=(.*)$/s.exec(word) ?? [];
  if (path === undefined || value === undefined)
    throw new CliError(`Invalid field ${JSON.stringify(word)}; write name=value`, EXIT.usage);
  const names = path.split('.');
  const last = names.pop()!;
  let at = body;
  for (const name of names) {
    const inner = at[name];
    at[name] = isJsonObject(inner) ? { ...inner } : {};
    at = at[name] as JsonObject;
  }
  if (value === '') delete at[last];
  else at[last] = asJson(value);
}

function asJson(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

/** Fields by options of their own: headers in addition to those before, the prefix, the visibility. */
function sourceOptions({ line }: CommandContext, kind: 'mcp' | 'openapi', before: JsonObject): JsonObject {
  const given = Object.fromEntries(optionValues(line, 'header').map(toHeader));
  const named = kind === 'mcp' ? 'headers' : 'extra_headers';
  const fields: JsonObject = {};
  if (Object.keys(given).length > 0) fields[named] = { ...(before[named] as JsonObject | undefined), ...given };
  const prefix = optionValue(line, 'prefix');
  if (prefix !== undefined && kind === 'mcp') fields['prefix'] = prefix;
  if (prefix !== undefined && kind === 'openapi') fields['name_prefix'] = prefix && `${prefix}_`;
  const visibility = optionValue(line, 'visibility');
  if (visibility !== undefined) fields['visibility'] = visibility;
  return fields;
}

/** The registered source of this kind and name: the tenant's, or else the one that all share. */
async function knownSource({ gateway, line }: CommandContext, kind: string, name: string) {
  const sources = await gateway().request('GET /api/v1/sources');
  const named = sources.filter((one) => one.kind === kind && one.name === name && one.origin === 'api');
  const shared = named.find(({ tenant }) => tenant === null);
  if (optionValue(line, 'visibility') === 'fleet') return shared;
  const owned = named.filter(({ tenant }) => tenant !== null);
  if (owned.length < 2) return owned[0] ?? shared;
  const { tenant_id } = await gateway().request('GET /api/v1/me');
  return owned.find(({ tenant }) => tenant === tenant_id) ?? shared;
}

/** The command line of a local server: what follows `--`, or one argument that is neither a URL nor a file. */
function commandOf(words: readonly string[], rest: readonly string[]): readonly string[] | undefined {
  if (rest.length > 0) return rest;
  const [where = '', ...more] = words;
  const isCommand = more.length === 0 && !/^https?:\/\//i.test(where) && !existsSync(where);
  return isCommand ? where.trim().split(/\s+/) : undefined;
}

/** Names of prompts, skills and resources have their kind before a colon. */
const isTool = (name: string): boolean => !name.includes(':');

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
  const held = made.quarantined?.map((one) => one.name) ?? [];
  const first = (made.operations_registered ?? made.registered)?.find((one) => isTool(one) && !held.includes(one));
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
  { line, terminal, signal }: CommandContext,
  where: string,
  headers: Readonly<Record<string, string>>,
): Promise<Wanted> {
  const { lookAt } = await import('../openapi/look.js');
  const look = await lookAt(where, headers, signal).catch((error: unknown) => {
    throw signal.aborted ? new CliError('Interrupted', 130) : error;
  });
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
  { gateway, signal }: { gateway: Gateway; signal: AbortSignal },
  { kind, origins }: Wanted,
  body: JsonObject,
  waitMs: number,
  query: { preview: true } | undefined,
): Promise<Registered> {
  for (const until = performance.now() + waitMs; ; await pause(RETRY_EVERY_MS, signal)) {
    try {
      return await gateway.request(`POST /api/v1/sources/${kind}`, { body, query });
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
