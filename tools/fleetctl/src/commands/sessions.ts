import type { UserSession } from '@toolfleet/client';
import { type Columns, type Command, noun, type Options, print, printTable } from '../command.js';
import { optionValue } from '../command-line.js';

const OF_TENANT: Options = [['--tenant <id>', 'another tenant (operators)']];

/** `fleetctl sessions`. */
export const sessions: Command = noun('sessions', {
  list: {
    options: OF_TENANT,
    async run(context) {
      const query = { tenant_id: optionValue(context.line, 'tenant') };
      const found = await context.gateway().request('GET /api/v1/sessions', { query });
      const columns = {
        ID: ({ id }) => id,
        USER: ({ user_id: user }) => user,
        IN: ({ client }) => (client === null ? 'browser' : (client.name ?? client.id)),
        ROLES: ({ roles }) => roles.join(','),
        SINCE: ({ created_at: at }) => at.slice(0, 16),
        UNTIL: ({ expires_at: at }) => at.slice(0, 16),
      } satisfies Columns<UserSession>;
      return printTable<UserSession>(context, found, columns, 'No sessions');
    },
  },
  end: {
    words: '<id>',
    options: OF_TENANT,
    async run(context, id = '') {
      const query = { tenant_id: optionValue(context.line, 'tenant') };
      await context.gateway().request('DELETE /api/v1/sessions/{id}', { path: { id }, query });
      return print(context, { id, ended: true }, `Ended ${id}`);
    },
  },
});
