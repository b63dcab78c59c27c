import { suggestion } from '@toolfleet/contracts/text';
import { type Command, type CommandRow, commandHelp, generalHelp, GLOBAL } from './command.js';
import { COMMANDS } from './command-table.js';
import { CliError, EXIT } from './cli-error.js';
import { findConnection, type Environment } from './connection.js';
import { Gateway } from './gateway.js';
import { hasSwitch, parseCommandLine, type CommandLine } from './command-line.js';
import { CALL_OPTIONS } from './tool-arguments.js';
import { systemTerminal, type Terminal } from './terminal.js';

/** The command of a line and the words after its name of one or two words. */
function findCommand(
  words: readonly string[],
): { name: string; row: CommandRow; words: readonly string[] } | undefined {
  for (const length of [2, 1]) {
    const name = words.slice(0, length).join(' ');
    const row = words.length >= length ? COMMANDS.get(name) : undefined;
    if (row) return { name, row, words: words.slice(length) };
  }
  return undefined;
}

/** All packages of the repository are released with the same version. */
const VERSION = '0.1.0';

/** Runs a command line. @returns the exit code; errors of usage, connection and calls are printed */
export async function main(
  argv: readonly string[],
  terminal: Terminal = systemTerminal(),
  { env, cwd }: Environment = { env: process.env, cwd: process.cwd() },
): Promise<number> {
  // Empty variables count as unset, as for services.
  const environment = { env: Object.fromEntries(Object.entries(env).filter(([, value]) => value !== '')), cwd };
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  process.once('SIGINT', interrupt);
  try {
    return await dispatch(argv, terminal, environment, interrupted.signal);
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
  environment: Environment,
  signal: AbortSignal,
): Promise<number> {
  if (argv[0] === 'openapi' && (argv[1] === 'inspect' || argv[1] === 'request')) {
    const sink = (write: (text: string) => void) => ({
      write(text: string) {
        write(text);
        return true;
      },
    });
    const { runOpenapi } = await import('./commands/openapi.js');
    return runOpenapi(argv.slice(1), {
      env: environment.env,
      stdout: sink(terminal.out),
      stderr: sink(terminal.error),
    });
  }
  const line = parseCommandLine(argv);
  if (hasSwitch(line, 'version') && line.words.length === 0) {
    terminal.out(`${VERSION}\n`);
    return EXIT.ok;
  }
  const found = findCommand(line.words);
  if (!found) {
    if (line.words.length > 0 && line.words[0] !== 'help') throw new CliError(unknownCommand(line.words), EXIT.usage);
    const strange = [...line.options.keys()].find((option) => !GLOBAL.includes(option));
    if (strange !== undefined)
      throw new CliError(
        `Unknown option --${strange}${suggestion(strange, GLOBAL, '--')} (see "fleetctl help")`,
        EXIT.usage,
      );
    const asked = findCommand(line.words.slice(1));
    terminal.out(asked ? commandHelp(await asked.row.load(), asked.row.summary) : generalHelp(COMMANDS));
    return line.words.length === 0 && !hasSwitch(line, 'help') ? EXIT.usage : EXIT.ok;
  }
  const { name, row, words } = found;
  const command = await row.load();
  const [tool] = words;
  const isHelp = hasSwitch(line, 'help');
  // The arguments of a tool are the options of its call.
  const showsTool = isHelp && name === 'call' && tool !== undefined;
  if (isHelp && !showsTool) {
    terminal.out(commandHelp(command, row.summary));
    return EXIT.ok;
  }
  rejectUnknownOptions(line, command);
  const strange = command.mostWords === undefined ? undefined : [...words, ...line.rest][command.mostWords];
  if (strange !== undefined)
    throw new CliError(
      `${JSON.stringify(strange)} is an unexpected argument; usage: fleetctl ${command.usage}`,
      EXIT.usage,
    );
  return (showsTool ? await COMMANDS.get('describe')!.load() : command).run({
    line,
    words: showsTool ? [tool] : words,
    terminal,
    environment,
    json: hasSwitch(line, 'json'),
    gateway: (ignoredFlags) => new Gateway(findConnection(line, environment, ignoredFlags), signal),
    signal,
    commands: COMMANDS,
  });
}

function rejectUnknownOptions(line: CommandLine, command: Command): void {
  // Options after the name of a tool are its arguments; those before it are not.
  const known = command.known ?? CALL_OPTIONS;
  const given = command.known ? [...line.options.keys()] : [...line.own];
  const strange = given.find((option) => !GLOBAL.includes(option) && !known.includes(option));
  if (strange !== undefined)
    throw new CliError(
      `Unknown option --${strange}${suggestion(strange, [...GLOBAL, ...known], '--')} (fleetctl ${command.usage.split(' ')[0]} --help)`,
      EXIT.usage,
    );
}

function unknownCommand(words: readonly string[]): string {
  const [word = ''] = words;
  return `Unknown command ${JSON.stringify(word)}${suggestion(word, COMMANDS.keys())} (see "fleetctl help")`;
}
