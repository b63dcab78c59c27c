import type { Environment } from './connection.js';
import type { Gateway } from './gateway.js';
import type { CommandLine } from './command-line.js';
import type { Terminal } from './terminal.js';

/** Dependencies of a command. */
export interface CommandContext {
  line: CommandLine;
  /** Positional arguments after the name of the command. */
  words: readonly string[];
  terminal: Terminal;
  environment: Environment;
  /** `--json`: the output is for programs. */
  json: boolean;
  /** The gateway. Located on use, so that commands that need none work without a fleet. */
  gateway(ignoredFlags?: ReadonlySet<string>): Gateway;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
  commands: CommandTable;
}

/** A command in the list of all. */
export interface CommandRow {
  summary: string;
  load(): Promise<Command>;
}
export type CommandTable = ReadonlyMap<string, CommandRow>;

/** One command of the CLI. */
export interface Command {
  /** What follows `fleetctl`; alternatives are separated by ` | `. */
  usage: string;
  /** Options in addition to the global ones, as shown by `--help`. */
  options?: readonly (readonly [string, string])[];
  /** First arguments, for completion. */
  verbs?: readonly string[];
  /** Candidates for the word after these that begin with one of `verbs`; none: options are offered. */
  complete?(words: readonly string[], gateway: Gateway, toolset?: string): Promise<string[]>;
  /** Most positional arguments; undefined: the command checks them itself. */
  mostWords?: number;
  /** Names of the options; undefined: any, because they are arguments of a tool. */
  known?: readonly string[];
  run(context: CommandContext): Promise<number>;
}

/** The option of commands that show or call tools. */
export const TOOLSET_OPTION = [
  '--toolset <name>',
  'Tools of this toolset, as it shows them; <name>@<version> for one version',
] as const;

const GLOBAL_OPTIONS = [
  ['-u, --url <url>', 'URL of the gateway (default: TOOLFLEET_URL, or the fleet of "npm start")'],
  ['-k, --key <key>', 'API key (default: TOOLFLEET_API_KEY, or the file TOOLFLEET_API_KEY_FILE)'],
  ['-j, --json', 'Print JSON'],
  ['-h, --help', 'Show the help of a command'],
] as const;

/** Help that lists every command. */
export function generalHelp(commands: CommandTable): string {
  const rows = [...commands].map(([name, { summary }]) => [name, summary] as const);
  return `fleetctl: call and manage the tools of a fleet\n\n${columns(rows)}\n${columns(GLOBAL_OPTIONS)}\nExit codes: 0 success, 1 failure, 2 usage error, 3 no connection, 4 not allowed\n`;
}

/** Help of one command. */
export function commandHelp(command: Command, summary: string): string {
  const uses = command.usage.split(' | ').map((use) => `  fleetctl ${use}\n`);
  return `${summary}\n\n${uses.join('')}\n${columns([...(command.options ?? []), ...GLOBAL_OPTIONS])}`;
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}\n`).join('');
}
