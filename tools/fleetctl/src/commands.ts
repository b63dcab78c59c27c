import type { Command } from './command.js';
import { audit } from './commands/audit.js';
import { call } from './commands/call.js';
import { completion } from './commands/completion.js';
import { config } from './commands/config.js';
import { describe } from './commands/describe.js';
import { health } from './commands/health.js';
import { jobs } from './commands/jobs.js';
import { keys } from './commands/keys.js';
import { openapi } from './commands/openapi.js';
import { toolNew } from './commands/tool-new.js';
import { tools } from './commands/tools.js';
import { usage } from './commands/usage.js';

/** Every command by its name, in the order of the help. */
export const COMMANDS: ReadonlyMap<string, Command> = new Map([
  ['tools', tools],
  ['describe', describe],
  ['call', call],
  ['jobs', jobs],
  ['usage', usage],
  ['keys', keys],
  ['health', health],
  ['audit', audit],
  ['tool new', toolNew],
  ['openapi', openapi],
  ['config', config],
  ['completion', completion(() => COMMANDS)],
]);

/** The command of a line, and the words after its name; names may have two words. */
export function findCommand(words: readonly string[]): { command: Command; words: readonly string[] } | undefined {
  for (const length of [2, 1]) {
    const command = words.length >= length ? COMMANDS.get(words.slice(0, length).join(' ')) : undefined;
    if (command) return { command, words: words.slice(length) };
  }
  return undefined;
}
