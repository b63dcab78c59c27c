import { type Command, noun, printTable } from '../command.js';
import { optionValue } from '../command-line.js';

/** `fleetctl users revoke`. */
export const users: Command = noun('users', {
  revoke: {
    words: '<user>',
    options: [['--tenant <id>', 'another tenant (operators)']],
    async run(context, user_id = '') {
      const body = { user_id, tenant_id: optionValue(context.line, 'tenant') };
      const ended = await context.gateway().request('POST /api/v1/users/revoke', { body });
      const rows = [
        ...ended.sessions.map(({ id, client }) =>
          client ? ['client', id, client.name ?? client.id] : ['sign-in', id, 'browser'],
        ),
        ...ended.keys.map(({ id, client }) => ['key', id, client]),
      ];
      const columns = {
        ENDED: (row: string[]) => row[0],
        ID: (row: string[]) => row[1],
        OF: (row: string[]) => row[2],
      };
      return printTable(context, rows, columns, `${user_id} had no sign-in, no MCP client and no key`, ended);
    },
  },
});
