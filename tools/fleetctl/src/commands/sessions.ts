import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import { optionValue } from '../command-line.js';
import { jsonText, table } from '../terminal.js';

/** `fleetctl sessions`. */
export const sessions: Command = {
  usage: 'sessions [list] | sessions end <id>',
  options: [['--tenant <id>', 'another tenant (operators)']],
  verbs: ['list', 'end'],
  known: ['tenant'],
  async run(context) {
    const [verb = 'list', id] = context.words;
    const query = { tenant_id: optionValue(context.line, 'tenant') };
    if (verb === 'list') return list(context, query);
    if (verb !== 'end' || id === undefined) throw new CliError(`usage: fleetctl ${sessions.usage}`, EXIT.usage);
    await context.gateway().request('DELETE /api/v1/sessions/{id}', { path: { id }, query });
    context.terminal.out(context.json ? `${jsonText({ id, ended: true })}\n` : `Ended ${id}\n`);
    return EXIT.ok;
  },
};

async function list(
  { gateway, json, terminal }: CommandContext,
  query: { tenant_id: string | undefined },
): Promise<number> {
  const body = await gateway().request('GET /api/v1/sessions', { query });
  if (json) terminal.out(`${jsonText(body, 2)}\n`);
  else if (body.length === 0) terminal.out('No sessions\n');
  else {
    const rows = body.map((session) => [
      session.id,
      session.user_id,
      session.client === null ? 'browser' : (session.client.name ?? session.client.id),
      session.roles.join(','),
      session.created_at.slice(0, 16),
      session.expires_at.slice(0, 16),
    ]);
    terminal.out(table(['ID', 'USER', 'IN', 'ROLES', 'SINCE', 'UNTIL'], rows, terminal.width));
  }
  return EXIT.ok;
}
