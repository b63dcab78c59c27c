import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { CliError, EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { userFilePath } from '../connection.js';

/** `fleetctl config`: the user's own connection file. */
export const config: Command = {
  usage: 'config | config set <url|api_key> <value> | config set api_key - (from standard input)',
  summary: 'Show or change the connection kept in your configuration folder',
  known: [],
  async run({ words, json, terminal, surroundings }) {
    const path = userFilePath(surroundings.env);
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
          ? `${JSON.stringify(shown, null, 2)}\n`
          : Object.entries(shown)
              .map(([key, one]) => `${key}: ${one}\n`)
              .join(''),
      );
      return EXIT.ok;
    }
    if (verb !== 'set' || (name !== 'url' && name !== 'api_key') || value === undefined)
      throw new CliError(`usage: fleetctl ${config.usage}`, EXIT.usage);
    content[name] = value === '-' ? (await terminal.readInput()).trim() : value;
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(path, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
    return EXIT.ok;
  },
};

function read(path: string): Record<string, string> {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>;
  } catch {
    return {};
  }
}
