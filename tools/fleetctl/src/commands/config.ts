import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { suggestion } from '@toolfleet/contracts/text';
import { CliError, EXIT } from '../cli-error.js';
import { type Command, type CommandContext, noun, print } from '../command.js';
import { isFleetUrl, userFilePath } from '../connection.js';

const NAMES = ['url', 'api_key'];

/** `fleetctl config`: the user's own connection file. */
export const config: Command = noun('config', {
  show: {
    run(context) {
      const path = userFilePath(context.environment.env);
      const { api_key: key, ...content } = read(path);
      const shown = { file: path, ...content, api_key: key && `${key.slice(0, 8)}…` };
      const lines = Object.entries(shown).filter(([, value]) => value !== undefined);
      return print(context, shown, lines.map(([name, value]) => `${name}: ${value}`).join('\n'));
    },
  },
  set: {
    words: '<url|api_key> <value>',
    options: [['-', 'As value: read from standard input, so that no key ends up in the history of the shell']],
    async run(context, name = '', value = '') {
      const text = value === '-' ? (await context.terminal.readInput()).trim() : value;
      return change(context, name, checked(name, text));
    },
  },
  unset: { words: '<url|api_key>', run: (context, name = '') => change(context, name, undefined) },
});

function change({ environment }: CommandContext, name: string, value: string | undefined): number {
  if (!NAMES.includes(name))
    throw new CliError(`config has ${NAMES.join(' and ')}${suggestion(name, NAMES)}`, EXIT.usage);
  const path = userFilePath(environment.env);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(path, `${JSON.stringify({ ...read(path), [name]: value }, null, 2)}\n`, { mode: 0o600 });
  chmodSync(path, 0o600); // also if the file existed with wider permissions
  return EXIT.ok;
}

function checked(name: string, value: string): string {
  if (name === 'url' && !isFleetUrl(value))
    throw new CliError(`Invalid URL ${value}; it must start with http:// or https://`, EXIT.usage);
  if (value === '' || /\s/.test(value)) throw new CliError(`${name} must not be empty or contain spaces`, EXIT.usage);
  return value;
}

function read(path: string): Record<string, string> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new CliError(`${path} cannot be read: ${(error as Error).message}`);
  }
  try {
    return JSON.parse(text) as Record<string, string>;
  } catch {
    throw new CliError(`${path} is not valid JSON`, EXIT.usage);
  }
}
