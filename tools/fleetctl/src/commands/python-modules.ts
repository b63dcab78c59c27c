import { CliError, EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { jsonText, table } from '../terminal.js';

/** `fleetctl python-modules`. */
export const pythonModules: Command = {
  usage: 'python-modules [list] | python-modules set strict [module …]',
  verbs: ['list', 'set'],
  async run({ gateway, json, terminal, words }) {
    const [verb = 'list', level, ...modules] = words;
    if (verb !== 'list' && (verb !== 'set' || level === undefined))
      throw new CliError(`usage: fleetctl ${pythonModules.usage}`, EXIT.usage);
    const body =
      verb === 'list'
        ? await gateway().request('GET /api/v1/python/modules')
        : await gateway().request('PUT /api/v1/python/modules/{level}', { path: { level: level! }, body: { modules } });
    if (json) terminal.out(`${jsonText(body, 2)}\n`);
    else {
      const { available: _, ...bySource } = body;
      const rows = Object.entries(bySource).flatMap(([source, lists]) =>
        Object.entries(lists).map(([name, listed]) => [name, source, listed.join(',') || '-']),
      );
      terminal.out(table(['LEVEL', 'SOURCE', 'MODULES'], rows, terminal.width));
    }
    return EXIT.ok;
  },
};
