import { suggestion } from '@toolfleet/contracts/text';
import { CliError, EXIT } from './cli-error.js';
import type { Environment } from './connection.js';
import type { Gateway } from './gateway.js';
import type { CommandLine } from './command-line.js';
import { jsonText, table, type Terminal } from './terminal.js';

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
  options?: Options;
  /** First arguments, for completion. */
  verbs?: readonly string[];
  /** Candidates for the word after these that begin with one of `verbs`; none: options are offered. */
  complete?: ((words: readonly string[], gateway: Gateway, toolset?: string) => Promise<string[]>) | undefined;
  /** Most positional arguments; undefined: the command checks them itself. */
  mostWords?: number;
  /** Names of the options; undefined: any, because they are arguments of a tool. */
  known?: readonly string[];
  run(context: CommandContext): Promise<number>;
}

/** Options with their help: `--name <value>`. */
export type Options = readonly (readonly [string, string])[];

/** One verb of a command, such as `keys revoke`. */
export interface Verb {
  /** Words after the verb: `<id>` is required, `[id]` is not, `…` repeats. Alternatives are separated by ` | `. */
  words?: string;
  options?: Options;
  /** Its words in the help, if they differ. */
  usage?: string;
  run(context: CommandContext, ...words: string[]): Promise<number> | number;
}

const namesOf = (options: Options = []): string[] => options.flatMap(([left]) => left.match(/(?<=--)[a-z-]+/g) ?? []);

/** A command as a table of verbs; without a verb it runs the first. Unknown words and options are refused. */
export function noun(
  name: string,
  verbs: Readonly<Record<string, Verb>>,
  complete?: Command['complete'],
): Command & { verbs: readonly string[] } {
  const rows = Object.entries(verbs);
  const first = rows[0]![0];
  const usageOf = (verb: string, { words, usage = words }: Verb) =>
    (usage ?? '')
      .split(' | ')
      .map((one) => `${name} ${verb === first && words === undefined ? `[${verb}]` : verb} ${one}`.trim())
      .join(' | ');
  const options = new Map<string, { left: string; help: string; of: string[] }>();
  for (const [verb, { options: own = [] }] of rows)
    for (const [left, help] of own) {
      const known = options.get(left + help) ?? { left, help, of: [] };
      known.of.push(verb);
      options.set(left + help, known);
    }
  return {
    usage: rows.map(([verb, row]) => usageOf(verb, row)).join(' | '),
    options: [...options.values()].map(({ left, help, of }) => [
      left,
      of.length === rows.length ? help : `${of.join(', ')}: ${help}`,
    ]),
    verbs: rows.map(([verb]) => verb),
    known: rows.flatMap(([, row]) => namesOf(row.options)),
    complete,
    async run(context) {
      const [verb = first, ...words] = context.words;
      const row = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined;
      if (!row)
        throw new CliError(
          `fleetctl ${name} has no verb ${JSON.stringify(verb)}${suggestion(verb, Object.keys(verbs))} (see "fleetctl ${name} --help")`,
          EXIT.usage,
        );
      if (!hasWords(row.words ?? '', words, context.line.rest))
        throw new CliError(`usage: fleetctl ${usageOf(verb, row).replaceAll(' | ', '\n       fleetctl ')}`, EXIT.usage);
      const known = namesOf(row.options);
      const strange = [...context.line.options.keys()].find((one) => !GLOBAL.includes(one) && !known.includes(one));
      if (strange !== undefined)
        throw new CliError(
          `--${strange} is not an option of fleetctl ${name} ${verb}${suggestion(strange, known, '--')}`,
          EXIT.usage,
        );
      return row.run(context, ...words);
    },
  };
}

/** Whether words fit a verb. @param rest words after `--` */
function hasWords(wanted: string, words: readonly string[], rest: readonly string[]): boolean {
  return wanted.split(' | ').some((alternative) => {
    const [before = '', after] = alternative.split(/(?:^| )-- /);
    const parts = before.split(' ').filter(Boolean);
    const isMany = parts.at(-1)?.includes('…') ?? false;
    const least = parts.filter((part) => !/^[[…]/.test(part)).length;
    const fixed = parts.every((part, at) => /[<[…]/.test(part) || part === words[at]);
    const fits = words.length >= least && (isMany || words.length <= parts.length);
    return fixed && fits && (after !== undefined ? rest.length > 0 : rest.length === 0);
  });
}

/** Prints an answer: as JSON for programs, or its text. */
export function print({ json, terminal }: CommandContext, body: unknown, text: string | (() => string)): number {
  terminal.out(json ? `${jsonText(body, 2)}\n` : typeof text === 'string' ? `${text}\n` : text());
  return EXIT.ok;
}

/** The one with this id or name. @throws CliError when there is none, or several have the name */
export function findNamed<T extends { id: string; name: string }>(kind: string, all: readonly T[], name: string): T {
  const exact = all.find(({ id }) => id === name);
  const named = exact ? [exact] : all.filter((one) => one.name === name);
  if (named.length > 1)
    throw new CliError(`Several ${kind}s are called ${name}: ${named.map(({ id }) => id).join(', ')}`, EXIT.usage);
  if (named[0]) return named[0];
  const known = all.flatMap((one) => [one.name, one.id]);
  throw new CliError(`No ${kind} ${JSON.stringify(name)}${suggestion(name, known)} (see "fleetctl ${kind}s")`);
}

/** Columns of a table by their heads. */
export type Columns<T> = Readonly<Record<string, (row: T) => string | number | null | undefined>>;

/** Prints rows as a table by the heads of its columns. @param none printed without rows */
export function printTable<T>(
  context: CommandContext,
  rows: readonly T[],
  columns: Columns<T>,
  none: string,
  body: unknown = rows,
): number {
  return print(context, body, () => (rows.length === 0 ? `${none}\n` : tableOf(rows, columns, context.terminal.width)));
}

/** A table by the heads of its columns. */
export function tableOf<T>(rows: readonly T[], columns: Columns<T>, width: number | undefined): string {
  const cells = rows.map((row) => Object.values(columns).map((cell) => cell(row)));
  return table(Object.keys(columns), cells, width);
}

/** Options of every command. */
export const GLOBAL: readonly string[] = ['url', 'key', 'json', 'help', 'version'];

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
  return `fleetctl: call and manage the tools of a fleet\n\n${pairs(rows)}\n${pairs(GLOBAL_OPTIONS)}\nExit codes: 0 success, 1 failure, 2 usage error, 3 no connection, 4 not allowed\n`;
}

/** Help of one command. */
export function commandHelp(command: Command, summary: string): string {
  const uses = command.usage.split(' | ').map((use) => `  fleetctl ${use}\n`);
  return `${summary}\n\n${uses.join('')}\n${pairs([...(command.options ?? []), ...GLOBAL_OPTIONS])}`;
}

function pairs(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}\n`).join('');
}
