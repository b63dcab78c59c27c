import { candidates } from '../candidates.js';
import { CliError, EXIT } from '../cli-error.js';
import type { Command } from '../command.js';

/**
 * Candidates are text from elsewhere and are never evaluated. `compgen -W` would expand what it is given, and readline puts
 * a candidate on the line as it is, where Enter would run it: so bash compares text, and takes plain words only (a word
 * boundary of its own, `:`, is one of them). zsh and fish quote what they insert.
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
const SCRIPTS: ReadonlyMap<string, string> = new Map([
  ['bash', BASH],
  ['zsh', ZSH],
  ['fish', FISH],
]);

/** `fleetctl completion`: a script for the shell, which asks this program, and it the fleet, while somebody types. */
export const completion = (commands: () => ReadonlyMap<string, Command>): Command => ({
  usage: 'completion <bash|zsh|fish>',
  summary: 'Print a script that completes commands, tools, arguments and their values',
  known: [],
  verbs: [...SCRIPTS.keys()],
  async run({ words, line, terminal, gateway, signal }) {
    const [what = ''] = words;
    const script = SCRIPTS.get(what);
    if (script !== undefined) terminal.out(script);
    else if (what === 'words') {
      const found = await candidates(line.rest, commands(), gateway, signal);
      terminal.out(found.map((one) => `${one}\n`).join(''));
    } else throw new CliError('usage: fleetctl completion <bash|zsh|fish>', EXIT.usage);
    return EXIT.ok;
  },
});
