import type { Command } from '../command.js';
import { optionValue } from '../parse-argv.js';
import { table } from '../table.js';
import { jsonText } from '../terminal.js';

/** A tool as the gateway lists it. */
export interface ListedTool {
  name: string;
  description: string;
  category: string;
  version: string;
  parameters: import('@toolfleet/contracts').JsonObject;
  timeout_seconds: number;
  cost_per_use: number;
  available?: boolean;
}

/** `fleetctl tools`. */
export const tools: Command = {
  usage: 'tools [--category <word>]',
  summary: 'List the tools you may call',
  options: [['--category <word>', 'Only tools of this category or tag']],
  mostWords: 0,
  known: ['category'],
  async run({ line, json, terminal, gateway }) {
    const category = optionValue(line, 'category');
    const query = category === undefined ? '' : `?category=${encodeURIComponent(category)}`;
    const { body } = await gateway().ask<ListedTool[]>('GET', `/api/v1/tools${query}`);
    if (json) terminal.out(`${jsonText(body, 2)}\n`);
    else if (body.length === 0) terminal.out('No tools\n');
    else {
      const rows = body.map((tool) => [
        tool.available === false ? `${tool.name} (away)` : tool.name,
        tool.category,
        tool.cost_per_use === 0 ? 'free' : `$${tool.cost_per_use}`,
        firstSentence(tool.description),
      ]);
      terminal.out(table(['NAME', 'CATEGORY', 'COST', 'DESCRIPTION'], rows, terminal.width));
    }
    return 0;
  },
};

function firstSentence(text: string): string {
  return /^.*?[.!?](?=\s|$)/s.exec(text)?.[0] ?? text;
}
