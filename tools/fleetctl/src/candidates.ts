import type { JsonObject } from '@toolfleet/contracts';
import type { Command } from './command.js';
import type { Gateway } from './gateway.js';
import { isPlainWord } from './shell-words.js';

/**
 * What can stand next on a command line, asked for by the shell while somebody types. Names and values of tools that a shell
 * could take for anything but a word are left out: they have to be typed.
 */
export async function candidates(
  words: readonly string[],
  commands: ReadonlyMap<string, Command>,
  gateway: () => Gateway,
  signal: AbortSignal,
): Promise<string[]> {
  const [first = '', second] = words;
  if (words.length === 0) return [...new Set([...commands.keys()].map((name) => name.split(' ')[0] as string)), 'help'];
  if (first === 'help' && words.length === 1) return [...commands.keys()];
  const two = [...commands.keys()]
    .filter((name) => name.startsWith(`${first} `))
    .map((name) => name.slice(first.length + 1));
  if (two.length > 0 && words.length === 1) return two;
  const command = commands.get(`${first} ${second ?? ''}`) ?? commands.get(first);
  if (!command) return [];
  if (first === 'call' || first === 'describe') {
    if (words.length === 1) return toolNames(gateway(), signal);
    if (first === 'call' && second !== undefined)
      return callWords(second, words.at(-1) ?? '', command, gateway(), signal);
  }
  if (words.length === 1 && command.verbs) return [...command.verbs];
  if (first === 'config' && second === 'set' && words.length === 2) return ['url', 'api_key'];
  return optionsOf(command);
}

async function toolNames(gateway: Gateway, signal: AbortSignal): Promise<string[]> {
  const { body } = await gateway.ask<{ name: string }[]>('GET', '/api/v1/tools', undefined, signal);
  return body.map(({ name }) => name).filter(isPlainWord);
}

/** Values of the argument that was just named, else the tool's arguments and the options of `call`. */
async function callWords(
  tool: string,
  last: string,
  command: Command,
  gateway: Gateway,
  signal: AbortSignal,
): Promise<string[]> {
  const path = `/api/v1/tools/${encodeURIComponent(tool)}`;
  const { body } = await gateway.ask<{ parameters: JsonObject }>('GET', path, undefined, signal);
  const properties = (body.parameters['properties'] ?? {}) as Record<string, JsonObject>;
  const named =
    last.startsWith('--') && Object.hasOwn(properties, last.slice(2)) ? properties[last.slice(2)] : undefined;
  if (Array.isArray(named?.['enum'])) return named['enum'].map(String).filter(isPlainWord);
  const names = Object.keys(properties).filter(isPlainWord);
  return [...names.map((name) => `--${name}`), ...optionsOf(command)];
}

function optionsOf(command: Command): string[] {
  const own = (command.options ?? []).flatMap(([left]) => left.match(/--[a-z-]+/g) ?? []);
  return [...own, '--json', '--help'];
}
