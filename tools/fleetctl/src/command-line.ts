import { CliError, EXIT } from './cli-error.js';

/** A parsed command line. */
export interface CommandLine {
  /** Positional arguments, in order. */
  words: string[];
  /** Values by option. A repeated option has several values; true stands for an option without a value. */
  options: Map<string, (string | true)[]>;
  /** Options that are certainly fleetctl's own and no argument of a tool: given before the first word, or in the short form. */
  own: Set<string>;
  /** Everything after `--`. */
  rest: string[];
}

/** Options without a value: the word after them is a positional argument. */
const SWITCHES = new Set([
  'json',
  'help',
  'async',
  'allow',
  'dry-run',
  'no-retry',
  'version',
  'admin',
  'operator',
  'force',
  'watch',
  'show-body',
  'for-real',
  'include-unknown',
  'read-arguments',
  'replay',
  'no-wait',
  'ended',
  'diff',
  'prune',
  'replace',
  'yes',
]);
/** The ones that `call` has: others are arguments of its tool, with values. */
const CALL_SWITCHES = new Set(['json', 'help', 'async', 'dry-run', 'no-retry', 'no-wait']);
const SHORT: Readonly<Record<string, string>> = {
  h: 'help',
  j: 'json',
  a: 'arguments',
  o: 'output',
  u: 'url',
  k: 'key',
  f: 'file',
  s: 'session-id',
  V: 'version',
};

/**
 * Parses `--name value`, `--name=value`, `-j`, positional arguments, and `--` before arguments that look like options. Any option
 * is accepted here: `call`'s come from the tool's schema, fetched later.
 * @throws CliError for an unknown short option
 */
export function parseCommandLine(argv: readonly string[]): CommandLine {
  const line: CommandLine = { words: [], options: new Map(), own: new Set(), rest: [] };
  for (let index = 0; index < argv.length; index++) {
    const word = argv[index] as string;
    if (word === '--') {
      line.rest = argv.slice(index + 1);
      break;
    }
    const option = parseOption(word);
    if (!option) {
      line.words.push(word);
      continue;
    }
    const { name, value } = option;
    if (line.words.length === 0 || !word.startsWith('--')) line.own.add(name);
    const next = argv[index + 1];
    let given: string | true = value ?? true;
    const isSwitch = (line.words[0] === 'call' ? CALL_SWITCHES : SWITCHES).has(name);
    if (value === undefined && !isSwitch && next !== undefined && !looksLikeOption(next)) {
      given = next;
      index += 1;
    }
    line.options.set(name, [...(line.options.get(name) ?? []), given]);
  }
  return line;
}

/** The value of an option. @throws CliError when the value is missing or the option is repeated */
export function optionValue(line: CommandLine, name: string): string | undefined {
  const values = line.options.get(name);
  if (!values) return undefined;
  const value = values.at(-1);
  if (values.length > 1 || value === true || value === undefined)
    throw new CliError(`--${name} requires exactly one value`, EXIT.usage);
  return value;
}

/** The values of an option that may be repeated. @throws CliError when one has no value */
export function optionValues(line: CommandLine, name: string): string[] {
  return (line.options.get(name) ?? []).map((value) => {
    if (value === true) throw new CliError(`--${name} requires a value`, EXIT.usage);
    return value;
  });
}

/** The items of an option, separated by commas; none of an empty text, undefined without it. @throws CliError */
export function listOption(line: CommandLine, name: string): string[] | undefined {
  const text = optionValue(line, name);
  return text === '' ? [] : text?.split(',').map((item) => item.trim());
}

/** True when the option is present. */
export function hasSwitch(line: CommandLine, name: string): boolean {
  return line.options.has(name);
}

function parseOption(word: string): { name: string; value?: string } | undefined {
  const long = /^--([A-Za-z][\w.-]*)(?:=(.*))?$/s.exec(word);
  if (long) return { name: long[1] as string, ...(long[2] === undefined ? {} : { value: long[2] }) };
  const short = /^-([A-Za-z])$/.exec(word);
  const name = short && SHORT[short[1] as string];
  if (short && !name) throw new CliError(`Unknown option ${word}`, EXIT.usage);
  return name ? { name } : undefined;
}

/** False for negative numbers. */
function looksLikeOption(word: string): boolean {
  return /^--?[A-Za-z]/.test(word) || word === '--';
}

/** The non-negative integer of an option; undefined without it. @throws CliError */
export function numberOption(line: CommandLine, name: string): number | undefined {
  const text = optionValue(line, name);
  if (text !== undefined && !/^\d{1,9}$/.test(text)) throw new CliError(`--${name} must be a number`, EXIT.usage);
  return text === undefined ? undefined : Number(text);
}
