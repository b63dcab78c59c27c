import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { CliError, EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { isFleetUrl, userFilePath } from '../connection.js';
import { jsonText } from '../terminal.js';

/** `fleetctl config`: the user's own connection file. */
export const config: Command = {
  usage: 'config | config set <url|api_key> <value> | config set api_key - | config unset <url|api_key>',
  options: [['-', 'As value: read from standard input, so that no key ends up in the history of the shell']],
  known: [],
  verbs: ['set', 'unset'],
  async run({ words, json, terminal, environment }) {
    const path = userFilePath(environment.env);
    const content = read(path);
    const [verb, name, value] = words;
    if (verb === undefined) {
      const shown = {
        file: path,
        ...content,
        ...(content['api_key'] ? { api_key: `${content['api_key'].slice(0, 8)}…` } : {}),
      };
      terminal.out(
        json
          ? `${jsonText(shown, 2)}\n`
          : Object.entries(shown)
              .map(([key, one]) => `${key}: ${one}\n`)
              .join(''),
      );
      return EXIT.ok;
    }
    const isName = name === 'url' || name === 'api_key';
    if (verb === 'unset' && isName && words.length === 2) delete content[name];
    else if (verb === 'set' && isName && value !== undefined && words.length === 3)
      content[name] = checked(name, value === '-' ? (await terminal.readInput()).trim() : value);
    else throw new CliError(`usage: fleetctl ${config.usage}`, EXIT.usage);
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(path, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
    chmodSync(path, 0o600); // also if the file existed with wider permissions
    return EXIT.ok;
  },
};

function checked(name: 'url' | 'api_key', value: string): string {
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
