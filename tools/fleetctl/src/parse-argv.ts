import { CliError, EXIT } from './cli-error.js';

/** Words of a command line, taken apart. */
export interface CommandLine {
  /** Words that are no options, in order. */
  words: string[];
  /** Options; one given twice keeps both. `--no-x` is x=false, a bare option is true. */
  options: Map<string, (string | true)[]>;
  /** Options before the first word, or in their short form: they are fleetctl's own, whatever a tool's arguments are called. */
  own: Set<string>;
  /** Words after `--`. */
  rest: string[];
}

/** Options that never take a value: the word after them is a word of its own. */
const SWITCHES = new Set([
  'json',
  'help',
  'async',
  'dry-run',
  'no-retry',
  'version',
  'admin',
  'operator',
  'force',
  'watch',
  'no-wait',
]);
const SHORT: Readonly<Record<string, string>> = {
  h: 'help',
  j: 'json',
  a: 'arguments',
  u: 'url',
  k: 'key',
  s: 'session-id',
  V: 'version',
};

/** Takes a command line apart: `--name value`, `--name=value`, `-j`, words, and `--` before words that look like options. */
export function parseArgv(argv: readonly string[]): CommandLine {
  const line: CommandLine = { words: [], options: new Map(), own: new Set(), rest: [] };
  for (let index = 0; index < argv.length; index++) {
    const word = argv[index] as string;
    if (word === '--') {
      line.rest = argv.slice(index + 1);
      break;
    }
    const option = optionOf(word);
    if (!option) {
      line.words.push(word);
      continue;
    }
    const { name, value } = option;
    if (line.words.length === 0 || !word.startsWith('--')) line.own.add(name);
    const next = argv[index + 1];
    let given: string | true = value ?? true;
    if (value === undefined && !SWITCHES.has(name) && next !== undefined && !looksLikeOption(next)) {
      given = next;
      index += 1;
    }
    line.options.set(name, [...(line.options.get(name) ?? []), given]);
  }
  return line;
}

/** The one value of an option that takes a value. @throws CliError when it is missing or given twice */
export function optionValue(line: CommandLine, name: string): string | undefined {
  const values = line.options.get(name);
  if (!values) return undefined;
  const value = values.at(-1);
  if (values.length > 1 || value === true || value === undefined)
    throw new CliError(`--${name} needs exactly one value`, EXIT.usage);
  return value;
}

/** True when a switch is given. */
export function hasSwitch(line: CommandLine, name: string): boolean {
  return line.options.has(name);
}

function optionOf(word: string): { name: string; value?: string } | undefined {
  const long = /^--([A-Za-z][\w.-]*)(?:=(.*))?$/s.exec(word);
  if (long) return { name: long[1] as string, ...(long[2] === undefined ? {} : { value: long[2] }) };
  const short = /^-([A-Za-z])$/.exec(word);
  const name = short && SHORT[short[1] as string];
  if (short && !name) throw new CliError(`Unknown option ${word}`, EXIT.usage);
  return name ? { name } : undefined;
}

/** `-5` is a number, not an option. */
function looksLikeOption(word: string): boolean {
  return /^--?[A-Za-z]/.test(word) || word === '--';
}
