import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandTable } from '../command.js';
import { getTool, type Gateway } from '../gateway.js';
import { isPlainWord } from '../terminal.js';
import { membersOf, resolved, schemaAt } from '../tool-schema.js';

/**
 * Candidates are untrusted text and must never be evaluated. `compgen -W` expands its words, and readline inserts a candidate
 * without quotes, so that Enter would run it. The bash script therefore compares text and accepts plain words only. zsh and
 * fish quote insertions.
 */
const BASH = `_fleetctl() {
  local word="\${COMP_WORDS[COMP_CWORD]}" found
  COMPREPLY=()
  while IFS= read -r found; do
    [[ $found == "$word"* && $found != *[^[:alnum:]_@%+:,./-]* ]] && COMPREPLY+=("$found")
  done < <(fleetctl completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
}
complete -o default -F _fleetctl fleetctl
`;
const ZSH = `#compdef fleetctl
_fleetctl() {
  local -a found=("\${(@f)$(fleetctl completion words -- "\${(@)words[2,CURRENT-1]}" 2>/dev/null)}")
  compadd -a found
}
compdef _fleetctl fleetctl
`;
const FISH = `complete -c fleetctl -f -a "(fleetctl completion words -- (commandline -opc)[2..-1] 2>/dev/null)"
`;
const SCRIPTS: ReadonlyMap<string, string> = new Map(Object.entries({ bash: BASH, zsh: ZSH, fish: FISH }));

/** `fleetctl completion`: a script for the shell that runs `fleetctl completion words` to get the candidates. */
export const completion: Command = {
  usage: 'completion <bash|zsh|fish>',
  known: [],
  verbs: [...SCRIPTS.keys()],
  async run({ words, line, terminal, gateway, signal, commands }) {
    const [what = ''] = words;
    const script = SCRIPTS.get(what);
    if (script !== undefined) terminal.out(script);
    else if (what === 'words') {
      const found = await candidates(line.rest, commands, gateway, signal);
      terminal.out(found.map((one) => `${one}\n`).join(''));
    } else throw new CliError('usage: fleetctl completion <bash|zsh|fish>', EXIT.usage);
    return EXIT.ok;
  },
};

/**
 * Candidates for the next word of a command line. Names and values that a shell could interpret are left out: they have to be
 * typed, in quotes.
 */
async function candidates(
  typed: readonly string[],
  commands: CommandTable,
  gateway: () => Gateway,
  signal: AbortSignal,
): Promise<string[]> {
  const { words, toolset } = takeToolset(typed);
  const [first = '', second] = words;
  if (words.length === 0) return [...new Set([...commands.keys()].map((name) => name.split(' ')[0] as string)), 'help'];
  if (first === 'help' && words.length === 1) return [...commands.keys()];
  const two = [...commands.keys()]
    .filter((name) => name.startsWith(`${first} `))
    .map((name) => name.slice(first.length + 1));
  if (two.length > 0 && words.length === 1) return two;
  const command = await (commands.get(`${first} ${second ?? ''}`) ?? commands.get(first))?.load();
  if (!command) return [];
  if (first === 'call' || first === 'describe') {
    if (words.length === 1) return toolNames(gateway(), signal, toolset);
    if (first === 'call' && second !== undefined)
      return callWords({ tool: second, toolset }, words.at(-1) ?? '', command, gateway(), signal);
  }
  if (words.length === 1 && command.verbs) return [...command.verbs];
  if (first === 'config' && second === 'set' && words.length === 2) return ['url', 'api_key'];
  const found = (await command.complete?.(words.slice(1), gateway(), toolset))?.filter(isPlainWord) ?? [];
  return found.length > 0 ? found : listOptions(command);
}

/** The words without `--toolset <name>` before or after the tool. */
function takeToolset(typed: readonly string[]): { words: readonly string[]; toolset?: string } {
  const at = typed.indexOf('--toolset');
  const value = typed[at + 1];
  if (at <= 0 || value === undefined || !['call', 'describe', 'tools'].includes(typed[0] ?? ''))
    return { words: typed };
  return { words: typed.toSpliced(at, 2), toolset: value };
}

async function toolNames(gateway: Gateway, signal: AbortSignal, toolset: string | undefined): Promise<string[]> {
  const body = await gateway.request('GET /api/v1/tools', { query: { toolset }, signal });
  return body.map(({ name }) => name).filter(isPlainWord);
}

/** Values of the argument before the cursor, or else the arguments of the tool and the options of `call`. */
async function callWords(
  { tool, toolset }: { tool: string; toolset: string | undefined },
  last: string,
  command: Command,
  gateway: Gateway,
  signal: AbortSignal,
): Promise<string[]> {
  const body = await getTool(gateway, tool, signal, toolset);
  const schema = resolved(body.parameters, body.parameters);
  const properties = membersOf(schema, body.parameters);
  const named = last.startsWith('--') ? schemaAt(last.slice(2).split('.'), schema, body.parameters) : undefined;
  const values = named?.['type'] === 'array' ? resolved(named['items'], body.parameters)['enum'] : named?.['enum'];
  if (Array.isArray(values)) return values.map(String).filter(isPlainWord);
  const names = Object.keys(properties).filter(isPlainWord);
  return [...names.map((name) => `--${name}`), ...listOptions(command)];
}

function listOptions(command: Command): string[] {
  const own = (command.options ?? []).flatMap(([left]) => left.match(/--[a-z-]+/g) ?? []);
  return [...own, '--json', '--help'];
}
