import type { CommandContext } from './command.js';
import { jsonText } from './terminal.js';

/**
 * Prints a secret that only this answer has. Standard output is the secret alone, for `$(…)` and files, or with `--json` the whole answer;
 * standard error names the owner of the secret, also where it is not a terminal: its id is needed later.
 */
export function showOnce(
  { json, terminal }: Pick<CommandContext, 'json' | 'terminal'>,
  answer: object,
  secret: string,
  what: string,
): void {
  terminal.out(json ? `${jsonText(answer, 2)}\n` : `${secret}\n`);
  if (!json) terminal.error(`${what}: this is the only time it is shown\n`);
}
