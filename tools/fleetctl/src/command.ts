import type { Surroundings } from './connection.js';
import type { Gateway } from './gateway.js';
import type { CommandLine } from './parse-argv.js';
import type { Terminal } from './terminal.js';

/** What a command gets. */
export interface CommandContext {
  line: CommandLine;
  /** Words after the command's name. */
  words: readonly string[];
  terminal: Terminal;
  surroundings: Surroundings;
  /** `--json`: programs read the output. */
  json: boolean;
  /** The fleet; looked up when first used, so that commands without one work anywhere. */
  gateway(ignoredFlags?: ReadonlySet<string>): Gateway;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
}

/** One command of the CLI. */
export interface Command {
  /** Words behind `fleetctl`, e.g. `keys create`. */
  usage: string;
  summary: string;
  /** Options beyond the global ones, as shown by `--help`. */
  options?: readonly (readonly [string, string])[];
  /** Words that may stand right behind the name, for completion. */
  verbs?: readonly string[];
  /** Most words behind the name; undefined: the command counts them itself. */
  mostWords?: number;
  /** Options a user may give; undefined: any (they are arguments of a tool). */
  known?: readonly string[];
  run(context: CommandContext): Promise<number>;
}
