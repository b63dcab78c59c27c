import { CliError, EXIT } from './cli-error.js';
import type { Command } from './command.js';
import { COMMANDS, findCommand } from './commands.js';
import { runOpenapi } from './commands/openapi.js';
import { findConnection, type Surroundings } from './connection.js';
import { Gateway } from './gateway.js';
import { suggestion } from './did-you-mean.js';
import { commandHelp, generalHelp } from './help.js';
import { hasSwitch, parseArgv, type CommandLine } from './parse-argv.js';
import { systemTerminal, type Terminal } from './terminal.js';

/** Options every command takes. */
const GLOBAL = ['url', 'key', 'json', 'help', 'version'];

/** Version of every package of the repository; they are released together. */
const VERSION = '0.1.0';

/** Runs one command line; the exit code. Never throws. */
export async function main(
  argv: readonly string[],
  terminal: Terminal = systemTerminal(),
  surroundings: Surroundings = { env: process.env, cwd: process.cwd() },
): Promise<number> {
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  process.once('SIGINT', interrupt);
  try {
    return await dispatch(argv, terminal, surroundings, interrupted.signal);
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    terminal.error(`fleetctl: ${error.message}\n`);
    return error.exitCode;
  } finally {
    process.off('SIGINT', interrupt);
  }
}

async function dispatch(
  argv: readonly string[],
  terminal: Terminal,
  surroundings: Surroundings,
  signal: AbortSignal,
): Promise<number> {
  if (argv[0] === 'openapi' && (argv[1] === 'inspect' || argv[1] === 'request')) {
    const sink = (write: (text: string) => void) => ({
      write(text: string) {
        write(text);
        return true;
      },
    });
    return runOpenapi(argv.slice(1), {
      env: surroundings.env,
      stdout: sink(terminal.out),
      stderr: sink(terminal.error),
    });
  }
  const line = parseArgv(argv);
  if (hasSwitch(line, 'version') && line.words.length === 0) {
    terminal.out(`${VERSION}\n`);
    return EXIT.ok;
  }
  const found = findCommand(line.words);
  if (!found) {
    if (line.words.length > 0 && line.words[0] !== 'help') throw new CliError(unknownCommand(line.words), EXIT.usage);
    const asked = findCommand(line.words.slice(1));
    terminal.out(asked ? commandHelp(asked.command) : generalHelp(COMMANDS));
    return line.words.length === 0 && !hasSwitch(line, 'help') ? EXIT.usage : EXIT.ok;
  }
  const { command, words } = found;
  if (hasSwitch(line, 'help')) {
    terminal.out(commandHelp(command));
    return EXIT.ok;
  }
  refuseUnknown(line, command);
  const strange = command.mostWords === undefined ? undefined : [...words, ...line.rest][command.mostWords];
  if (strange !== undefined)
    throw new CliError(`${JSON.stringify(strange)} is too much; usage: fleetctl ${command.usage}`, EXIT.usage);
  return command.run({
    line,
    words,
    terminal,
    surroundings,
    json: hasSwitch(line, 'json'),
    gateway: (ignoredFlags) => new Gateway(findConnection(line, surroundings, ignoredFlags), signal),
    signal,
  });
}

function refuseUnknown(line: CommandLine, command: Command): void {
  const { known } = command;
  if (!known) return;
  const strange = [...line.options.keys()].find((option) => !GLOBAL.includes(option) && !known.includes(option));
  if (strange !== undefined)
    throw new CliError(
      `Unknown option --${strange}${suggestion(strange, [...GLOBAL, ...known], '--')} (fleetctl ${command.usage.split(' ')[0]} --help)`,
      EXIT.usage,
    );
}

function unknownCommand(words: readonly string[]): string {
  const [word = ''] = words;
  return `Unknown command ${JSON.stringify(word)}${suggestion(word, COMMANDS.keys())} ("fleetctl help" lists them)`;
}
