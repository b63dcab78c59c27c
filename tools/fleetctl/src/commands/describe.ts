import type { JsonObject } from '@toolfleet/contracts';
import { CliError, EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { table } from '../table.js';
import { paint, plain } from '../terminal.js';
import type { ListedTool } from './tools.js';

/** `fleetctl describe`. */
export const describe: Command = {
  usage: 'describe <tool>',
  summary: 'Show what a tool does and which arguments it takes',
  known: [],
  async run({ words, json, terminal, gateway }) {
    const [name] = words;
    if (name === undefined || words.length > 1) throw new CliError('usage: fleetctl describe <tool>', EXIT.usage);
    const { body: tool } = await gateway().ask<ListedTool>('GET', `/api/v1/tools/${encodeURIComponent(name)}`);
    if (json) {
      terminal.out(`${JSON.stringify(tool, null, 2)}\n`);
      return 0;
    }
    const cost = tool.cost_per_use === 0 ? 'free' : `$${tool.cost_per_use} per call`;
    terminal.out(
      `${paint(terminal, 'bold', tool.name)} ${tool.version}  (${tool.category}, ${cost}, at most ${tool.timeout_seconds} s)\n\n${plain(tool.description)}\n\n`,
    );
    const rows = argumentRows(tool.parameters);
    terminal.out(
      rows.length === 0 ? 'Takes no arguments\n' : table(['ARGUMENT', 'TYPE', 'DEFAULT', 'DESCRIPTION'], rows),
    );
    terminal.out(`\nfleetctl call ${tool.name}${exampleFlags(tool.parameters)}\n`);
    return 0;
  },
};

function argumentRows(schema: JsonObject): string[][] {
  const required = (schema['required'] ?? []) as string[];
  return Object.entries((schema['properties'] ?? {}) as Record<string, JsonObject>).map(([name, property]) => [
    required.includes(name) ? `${name} *` : name,
    typeText(property),
    property['default'] === undefined ? '' : JSON.stringify(property['default']),
    String(property['description'] ?? ''),
  ]);
}

function typeText(property: JsonObject): string {
  if (Array.isArray(property['enum'])) return property['enum'].map(String).join('|');
  const type = property['type'];
  const text = Array.isArray(type) ? type.join('|') : String(type ?? 'any');
  const items = property['items'] as JsonObject | undefined;
  return text === 'array' && items?.['type'] ? `array of ${String(items['type'])}` : text;
}

function exampleFlags(schema: JsonObject): string {
  const required = (schema['required'] ?? []) as string[];
  return required.map((name) => ` --${name} …`).join('');
}
