import { suggestion } from '@toolfleet/contracts/text';
import { type Command, commandHelp, generalHelp } from './command.js';
import { apply } from './commands/apply.js';
import { approvals } from './commands/approvals.js';
import { audit } from './commands/audit.js';
import { budgets } from './commands/budgets.js';
import { call } from './commands/call.js';
import { calls } from './commands/calls.js';
import { check } from './commands/check.js';
import { completion } from './commands/completion.js';
import { exportFleet } from './commands/export.js';
import { config } from './commands/config.js';
import { describe, tools } from './commands/tools.js';
import { health } from './commands/health.js';
import { connections } from './commands/connections.js';
import { keys } from './commands/keys.js';
import { sessions } from './commands/sessions.js';
import { pythonModules } from './commands/python-modules.js';
import { openapi, runOpenapi } from './commands/openapi.js';
import { rules } from './commands/rules.js';
import { sources } from './commands/sources.js';
import { toolsets } from './commands/toolsets.js';
import { toolNew } from './commands/tool-new.js';
import { userPurge } from './commands/purge.js';
import { tenants } from './commands/tenants.js';
import { usage } from './commands/usage.js';
import { users } from './commands/users.js';
import { webhooks } from './commands/webhooks.js';
import { CliError, EXIT } from './cli-error.js';
import { findConnection, type Environment } from './connection.js';
import { Gateway } from './gateway.js';
import { hasSwitch, parseCommandLine, type CommandLine } from './command-line.js';
import { CALL_OPTIONS } from './tool-arguments.js';
import { systemTerminal, type Terminal } from './terminal.js';

/** Every command by name, in the order of the help. */
const COMMANDS: ReadonlyMap<string, Command> = new Map([
  ['tools', tools],
  ['describe', describe],
  ['call', call],
  ['calls', calls],
  ['usage', usage],
  ['budgets', budgets],
  ['keys', keys],
  ['sessions', sessions],
  ['connections', connections],
  ['sources', sources],
  ['approvals', approvals],
  ['toolsets', toolsets],
  ['rules', rules],
  ['webhooks', webhooks],
  ['apply', apply],
  ['export', exportFleet],
  ['tenants', tenants],
  ['users', users],
  ['user purge', userPurge],
  ['python-modules', pythonModules],
  ['health', health],
  ['audit', audit],
  ['tool new', toolNew],
  ['openapi', openapi],
  ['check', check],
  ['config', config],
  ['completion', completion(() => COMMANDS)],
]);

/** The command of a line and the words after its name of one or two words. */
function findCommand(words: readonly string[]): { command: Command; words: readonly string[] } | undefined {
  for (const length of [2, 1]) {
    const command = words.length >= length ? COMMANDS.get(words.slice(0, length).join(' ')) : undefined;
    if (command) return { command, words: words.slice(length) };
  }
  return undefined;
}

/** Options of every command. */
const GLOBAL = ['url', 'key', 'json', 'help', 'version'];

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
    terminal.out(asked ? commandHelp(asked.command) : generalHelp(COMMANDS));
    return line.words.length === 0 && !hasSwitch(line, 'help') ? EXIT.usage : EXIT.ok;
  }
  const { command, words } = found;
  const [tool] = words;
  const isHelp = hasSwitch(line, 'help');
  // The arguments of a tool are the options of its call.
  const showsTool = isHelp && command === COMMANDS.get('call') && tool !== undefined;
  if (isHelp && !showsTool) {
    terminal.out(commandHelp(command));
    return EXIT.ok;
  }
  rejectUnknownOptions(line, command);
  const strange = command.mostWords === undefined ? undefined : [...words, ...line.rest][command.mostWords];
  if (strange !== undefined)
    throw new CliError(
      `${JSON.stringify(strange)} is an unexpected argument; usage: fleetctl ${command.usage}`,
      EXIT.usage,
    );
  return (showsTool ? describe : command).run({
    line,
    words: showsTool ? [tool] : words,
    terminal,
    environment,
    json: hasSwitch(line, 'json'),
    gateway: (ignoredFlags) => new Gateway(findConnection(line, environment, ignoredFlags), signal),
    signal,
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
