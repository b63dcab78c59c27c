import type { Purge, RouteRequest } from '@toolfleet/client';
import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import { hasSwitch, optionValue } from '../command-line.js';
import { pause } from '../follow-call.js';
import type { Gateway } from '../gateway.js';
import { jsonText, table } from '../terminal.js';

const POLL_MS = 500;
/** Options of purges. */
export const PURGE_OPTIONS = [
  ['--dry-run', 'Only count what would be removed'],
  ['--confirm <name>', 'Required without --dry-run: the tenant, or <tenant>/<user> for a user'],
  ['--no-wait', 'Print the id of the purge and return; it runs in the background'],
] as const;

/** `fleetctl user purge`. */
export const userPurge: Command = {
  usage:
    'user purge <user> --tenant <tenant> --confirm <tenant>/<user> | user purge <user> --tenant <tenant> --dry-run',
  options: [['--tenant <id>', 'Tenant of the user; required'], ...PURGE_OPTIONS],
  known: ['tenant', 'dry-run', 'confirm', 'no-wait'],
  mostWords: 1,
  async run(context) {
    const [user] = context.words;
    const tenant = optionValue(context.line, 'tenant');
    if (user === undefined || !tenant) throw new CliError(`usage: fleetctl ${userPurge.usage}`, EXIT.usage);
    return purge(context, { tenant_id: tenant, user_id: user }, `${tenant}/${user}`);
  },
};

/** Requests a purge and waits for its end. @param wanted what `--confirm` must be @returns the exit code */
export async function purge(
  context: CommandContext,
  scope: RouteRequest<'POST /api/v1/purges'>['body'],
  wanted: string,
): Promise<number> {
  const { gateway, line, terminal, json, signal } = context;
  const dry_run = hasSwitch(line, 'dry-run');
  const confirm = optionValue(line, 'confirm');
  if (!dry_run && confirm !== wanted) {
    const what = confirm === undefined ? 'A purge cannot be undone' : `--confirm ${confirm} is not ${wanted}`;
    throw new CliError(`${what}: repeat with --confirm ${wanted}, or count with --dry-run`, EXIT.usage);
  }
  let record = await gateway().request('POST /api/v1/purges', { body: { ...scope, dry_run, confirm } });
  if (hasSwitch(line, 'no-wait')) {
    terminal.out(json ? `${jsonText(record, 2)}\n` : `${record.id}\n`);
    return EXIT.ok;
  }
  let shownError = '';
  while (record.state === 'running') {
    await pause(POLL_MS, signal).catch(() => {
      throw new CliError(`The purge continues; see: fleetctl tenants purge status ${record.id}`, 130);
    });
    record = await read(gateway(), record.id);
    if (record.error && record.error !== shownError) terminal.error(`waiting: ${record.error}\n`);
    shownError = record.error ?? '';
  }
  return show(context, record);
}

/** `fleetctl tenants purge status <id>`. */
export async function purgeStatus(context: CommandContext, id: string): Promise<number> {
  return show(context, await read(context.gateway(), id));
}

function read(gateway: Gateway, id: string): Promise<Purge> {
  return gateway.request('GET /api/v1/purges/{id}', { path: { id } });
}

/** Prints a purge. @returns the exit code: 1 if calls wrote again while it ran, so that it has to be repeated */
function show({ json, terminal }: CommandContext, record: Purge): number {
  const { counts, remaining, dry_run, state, pseudonym } = record;
  if (json) terminal.out(`${jsonText(record, 2)}\n`);
  else {
    const rows = Object.entries(counts).map(([kind, amount]) => [kind, String(amount), String(remaining[kind] ?? 0)]);
    const heads = dry_run ? ['KIND', 'FOUND'] : ['KIND', 'REMOVED', 'REMAINING'];
    const cells = rows.map((row) => row.slice(0, heads.length));
    terminal.out(rows.length === 0 ? 'Nothing found\n' : table(heads, cells, terminal.width));
    if (state === 'running') terminal.out(`Running${record.error ? `; waiting: ${record.error}` : ''}\n`);
    else if (!dry_run) terminal.out(`Purged; its rows in the ledger are those of ${pseudonym}\n`);
  }
  const left = Object.values(remaining).reduce((sum, one) => sum + one, 0);
  if (left === 0) return EXIT.ok;
  terminal.error('Calls wrote data while the purge ran: repeat it once they have ended\n');
  return EXIT.failed;
}
