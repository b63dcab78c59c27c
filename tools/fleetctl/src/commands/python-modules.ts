import type { PythonModuleLists } from '@toolfleet/client';
import { type Command, type CommandContext, noun, printTable } from '../command.js';

/** `fleetctl python-modules`. */
export const pythonModules: Command = noun('python-modules', {
  list: { run: async (context) => show(context, await context.gateway().request('GET /api/v1/python/modules')) },
  set: {
    words: 'strict [module] …',
    async run(context, level = '', ...modules) {
      const sent = { path: { level }, body: { modules } };
      return show(context, await context.gateway().request('PUT /api/v1/python/modules/{level}', sent));
    },
  },
});

function show(context: CommandContext, body: PythonModuleLists): number {
  const { available: _, ...bySource } = body;
  const rows = Object.entries(bySource).flatMap(([source, lists]) =>
    Object.entries(lists).map(([name, listed]) => ({ name, source, listed: listed.join(',') || '-' })),
  );
  type Row = (typeof rows)[number];
  const columns = {
    LEVEL: ({ name }: Row) => name,
    SOURCE: ({ source }: Row) => source,
    MODULES: ({ listed }: Row) => listed,
  };
  return printTable(context, rows, columns, 'No modules', body);
}
