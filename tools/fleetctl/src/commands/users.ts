import { CliError, EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { optionValue } from '../command-line.js';
import { jsonText, table } from '../terminal.js';

/** `fleetctl users revoke`. */
export const users: Command = {
  usage: 'users revoke <user>',
  options: [['--tenant <id>', 'another tenant (operators)']],
  verbs: ['revoke'],
  known: ['tenant'],
  async run({ words, line, gateway, json, terminal }) {
    const [verb, user_id] = words;
    if (verb !== 'revoke' || user_id === undefined) throw new CliError(`usage: fleetctl ${users.usage}`, EXIT.usage);
    const body = { user_id, tenant_id: optionValue(line, 'tenant') };
    const ended = await gateway().request('POST /api/v1/users/revoke', { body });
    if (json) terminal.out(`${jsonText(ended, 2)}\n`);
    else {
      const rows = [
        ...ended.sessions.map(({ id, client }) =>
          client ? ['client', id, client.name ?? client.id] : ['sign-in', id, 'browser'],
        ),
        ...ended.keys.map(({ id, client }) => ['key', id, client]),
      ];
      const nothing = `${user_id} had no sign-in, no MCP client and no key\n`;
      terminal.out(rows.length === 0 ? nothing : table(['ENDED', 'ID', 'OF'], rows, terminal.width));
    }
    return EXIT.ok;
  },
};
