import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { SourceStatus } from '@toolfleet/client';
import type { JsonObject } from '@toolfleet/contracts';
import { START_SECONDS } from '@toolfleet/contracts/tool-definition';
import type { McpEntry } from '@toolfleet/fleet-file';
import { CliError, EXIT } from '../cli-error.js';
import type { CommandContext } from '../command.js';
import { hasSwitch, optionValue } from '../command-line.js';
import type { Connection } from '../connection.js';
import { Refused, type Gateway } from '../gateway.js';
import type { InspectedServer, ServerCommand } from '../inspect-server.js';
import { pause } from '../follow-call.js';
import { plain } from '../terminal.js';
import { readJsonObject } from '../tool-arguments.js';

/** A running fleet applies its configuration file within about two seconds, and then starts the server. */
const STARTED_WITHIN_MS = 120_000;
/** A package runner may download the server. */
const DOWNLOAD_SECONDS = 120;
const LOOK_EVERY_MS = 500;
const MAX_NAMES = 10;
/** Programs that start the program which their arguments name, and words before that name. */
const RUNNERS = /^(npx|pnpm|yarn|bunx?|uvx?|pipx|node|deno|python3?|docker|podman)$/;
const RUNNER_WORDS = /^(run|exec|dlx|x|-.*)$/;

/** Name for a source: the program of a command line, without path, scope, version and file extension. */
export function commandName([command = '', ...args]: readonly string[]): string {
  const base = (word: string) =>
    word
      .replace(/.*[\\/]/, '')
      .replace(/[@:].*$/, '')
      .replace(/\.\w+$/, '');
  const program = RUNNERS.test(base(command)) ? args.find((word) => !RUNNER_WORDS.test(word)) : command;
  return base(program ?? command);
}

/**
 * Starts a local MCP server once to see its tools, declares it in the configuration file of the fleet that `npm start` runs here, and
 * waits until the fleet has started it. No other fleet starts local processes.
 * @param nameFor name of the source of a server that calls itself so
 * @returns the source as the fleet sees it
 * @throws CliError when the fleet is another one, without `--allow`, or when the command does not speak MCP
 */
export async function addCommand(
  context: CommandContext,
  words: readonly string[],
  nameFor: (server: string) => string,
  isLocal: boolean,
): Promise<SourceStatus> {
  const { line, terminal } = context;
  const shown = words.join(' ');
  if (!isLocal)
    throw new CliError(
      `${shown} is neither a URL nor a file. If it is the command of an MCP server: only the fleet that npm start runs on this machine starts commands. For any other fleet, have its operator run the server behind an HTTP bridge and allow its host (MCP_ALLOWED_DOMAINS), and add its URL`,
      EXIT.usage,
    );
  const misplaced = ['header', 'visibility'].find((option) => hasSwitch(line, option));
  if (misplaced) throw new CliError(`--${misplaced} is for sources with a URL; ${shown} is a command`, EXIT.usage);
  const fields = await readJsonObject(optionValue(line, 'fields'), '--fields', () => terminal.readInput());
  const prefix = optionValue(line, 'prefix');
  const [command = '', ...args] = words;
  const entry: JsonObject = { command, args, ...fields, ...(prefix === undefined ? {} : { prefix }) };
  const isRunner = RUNNERS.test(command.replace(/.*[\\/]/, ''));
  const seconds = Number(fields['start_seconds'] ?? (isRunner ? DOWNLOAD_SECONDS : START_SECONDS));
  terminal.error(`Starting ${shown} to see its tools, for at most ${seconds} s (start_seconds)…\n`);
  const look = await inspect(context, entry as unknown as ServerCommand, shown, seconds * 1_000);
  const name = nameFor(serverName(look));
  terminal.error(`${shown} is ${describeServer(look)}; adding it as ${name}\n`);
  if (!hasSwitch(line, 'allow'))
    throw new CliError(
      `The fleet would run this command on this machine, with your rights. --allow lets the fleet that npm start runs here start it`,
    );
  const gateway = context.gateway();
  const file = join(dirname(gateway.connection.from), 'fleet.yaml');
  await declareServer(file, name, entry);
  terminal.error(`Declared in ${file}; waiting until the fleet has its tools…\n`);
  const source = await started(gateway, name, context.signal);
  if (source.state !== 'ok')
    throw new CliError(`The fleet could not start ${shown}: ${source.last_error ?? source.state}`);
  return source;
}

/** The name of a server, without its version. */
export const serverName = ({ server }: InspectedServer): string => server.replace(/ \S*$/, '');

/** What inspection found out about a server, to follow "is". */
export function describeServer({ server, tools }: InspectedServer): string {
  const what = `an MCP server${server && ` (${plain(server)})`}`;
  if (tools === undefined) return `${what} that asks for a credential (--header "Authorization: Bearer …")`;
  const names = tools.slice(0, MAX_NAMES).map(plain).join(', ');
  const more = tools.length > MAX_NAMES ? `, and ${tools.length - MAX_NAMES} more` : '';
  return `${what} with ${tools.length} tools${names && `: ${names}`}${more}`;
}

/** Runs the command on this machine. The SDK is imported on demand, because it is large. */
async function inspect(
  { signal }: CommandContext,
  command: ServerCommand,
  shown: string,
  withinMs: number,
): Promise<InspectedServer> {
  const { inspectCommand } = await import('../inspect-server.js');
  try {
    return await inspectCommand(command, withinMs, signal);
  } catch (error) {
    if (signal.aborted) throw new CliError('Interrupted', 130);
    const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new CliError(`${shown} is neither a URL, nor a file, nor a command`, EXIT.usage);
    throw new CliError(
      `${shown} does not speak MCP over standard input and output: ${plain((error as Error).message)}`,
    );
  }
}

/**
 * Adds an entry to `mcp_servers` of a configuration file, and keeps its comments.
 * @throws CliError when the file has the name already, or is written in a way that cannot be extended
 */
async function declareServer(file: string, name: string, entry: JsonObject): Promise<void> {
  const row = `${name}: ${JSON.stringify(entry)}`;
  const before = readFileSync(file, 'utf8');
  const [head] = /^mcp_servers:[ \t]*(#.*)?$/m.exec(before) ?? [];
  const indent = head === undefined ? '  ' : (/^mcp_servers:.*\n(?:\s*#.*\n|\s*\n)*( +)/m.exec(before)?.[1] ?? '  ');
  const after =
    head === undefined
      ? `${before.replace(/\n*$/, '\n')}\nmcp_servers:\n${indent}${row}\n`
      : before.replace(head, () => `${head}\n${indent}${row}`);
  const known = await serversOf(before);
  if (known.some((server) => server.name === name))
    throw new CliError(`${file} has a server named ${name}; choose another with --name`, EXIT.usage);
  const isExtended = isDeepStrictEqual(
    (await serversOf(after)).toSorted(byName),
    [...known, { url: '', ...entry, name }].toSorted(byName),
  );
  if (!isExtended) throw new CliError(`${file} cannot be extended; add this below mcp_servers:\n  ${row}`);
  writeFileSync(file, after);
}

/**
 * Removes an entry that `declareServer` wrote.
 * @returns the file; undefined when it has no such line, because a person wrote the entry
 */
export async function removeCommand({ from }: Connection, name: string): Promise<string | undefined> {
  const file = join(dirname(from), 'fleet.yaml');
  const before = readFileSync(file, 'utf8');
  const [row] = before.match(new RegExp(`^ +${name.replaceAll('.', '\\.')}: \\{"command":.*\\n`, 'm')) ?? [];
  if (row === undefined) return undefined;
  const after = before.replace(row, () => '').replace(/^mcp_servers:[ \t]*\n(?![ #])/m, '');
  const isOnlyThis = isDeepStrictEqual(
    (await serversOf(after)).toSorted(byName),
    (await serversOf(before)).filter((one) => one.name !== name).toSorted(byName),
  );
  if (!isOnlyThis) return undefined;
  writeFileSync(file, after);
  return file;
}

const byName = (one: { name: string }, other: { name: string }): number => (one.name < other.name ? -1 : 1);

/** The servers of a configuration file; none of a text that is not valid. */
async function serversOf(text: string): Promise<McpEntry[]> {
  // Imported on demand, because its schema compiler is large.
  const { FleetFileError, parseFleetFiles } = await import('@toolfleet/fleet-file');
  try {
    return parseFleetFiles([{ file: '', text }]).mcp;
  } catch (error) {
    if (error instanceof FleetFileError) return [];
    throw error;
  }
}

/** Waits until the fleet has read the tools of a server that its file declares. */
async function started(gateway: Gateway, name: string, signal: AbortSignal): Promise<SourceStatus> {
  const sent = { path: { kind: 'mcp', name }, query: { visibility: 'fleet' as const } };
  for (const until = performance.now() + STARTED_WITHIN_MS; ; await pause(LOOK_EVERY_MS, signal)) {
    try {
      const source = await gateway.request('GET /api/v1/sources/{kind}/{name}', sent);
      const isRead = source.state !== 'pending' && (source.state !== 'ok' || (source.tools?.length ?? 0) > 0);
      if (isRead || performance.now() > until) return source;
    } catch (error) {
      const isMissing = error instanceof Refused && error.status === 404;
      if (!isMissing || performance.now() > until) throw error;
    }
  }
}
