import { CliError, EXIT } from '../cli-error.js';
import type { Command } from '../command.js';

const NAMES = 'tools describe call jobs usage keys health openapi tool config completion help';

const BASH = `_fleetctl() {
  local word="\${COMP_WORDS[COMP_CWORD]}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${NAMES}" -- "$word"))
  elif [ "$COMP_CWORD" -eq 2 ] && [[ "\${COMP_WORDS[1]}" == call || "\${COMP_WORDS[1]}" == describe ]]; then
    COMPREPLY=($(compgen -W "$(fleetctl completion names 2>/dev/null)" -- "$word"))
  elif [ "$COMP_CWORD" -gt 2 ] && [ "\${COMP_WORDS[1]}" == call ]; then
    COMPREPLY=($(compgen -W "$(fleetctl completion arguments "\${COMP_WORDS[2]}" 2>/dev/null)" -- "$word"))
  fi
}
complete -o default -F _fleetctl fleetctl
`;
const ZSH = `#compdef fleetctl
autoload -U +X bashcompinit && bashcompinit
${BASH}`;
const FISH = `complete -c fleetctl -f -n __fish_use_subcommand -a "${NAMES}"
complete -c fleetctl -f -n "__fish_seen_subcommand_from call describe" -a "(fleetctl completion names 2>/dev/null)"
`;
const SCRIPTS: ReadonlyMap<string, string> = new Map([
  ['bash', BASH],
  ['zsh', ZSH],
  ['fish', FISH],
]);

/** `fleetctl completion`: a script for the shell, which asks the fleet for names while you type. */
export const completion: Command = {
  usage: 'completion <bash|zsh|fish>',
  summary: 'Print a script that completes commands, tools and arguments',
  known: [],
  async run({ words, terminal, gateway, signal }) {
    const [what = '', tool] = words;
    const script = SCRIPTS.get(what);
    if (script !== undefined) terminal.out(script);
    else if (what === 'names') {
      const { body } = await gateway().ask<{ name: string }[]>('GET', '/api/v1/tools', undefined, signal);
      terminal.out(body.map((one) => `${one.name}\n`).join(''));
    } else if (what === 'arguments' && tool !== undefined) {
      const { body } = await gateway().ask<{ parameters: { properties?: object } }>(
        'GET',
        `/api/v1/tools/${encodeURIComponent(tool)}`,
        undefined,
        signal,
      );
      terminal.out(
        Object.keys(body.parameters.properties ?? {})
          .map((name) => `--${name}\n`)
          .join(''),
      );
    } else throw new CliError(`usage: fleetctl ${completion.usage}`, EXIT.usage);
    return EXIT.ok;
  },
};
