import type { CallApproval } from '@toolfleet/client';
import { CliError, EXIT } from '../cli-error.js';
import type { CommandContext } from '../command.js';
import { optionValue } from '../command-line.js';
import type { Gateway } from '../gateway.js';
import { facts, jsonText, paint, plain, table, type Terminal } from '../terminal.js';
import { readGrant } from './approval-grants.js';

/** Size of a page. */
const PAGE = 1_000;

/** Whether a word is the id of a call and not the name of a tool. */
export const isCallId = (word: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(word);

/** Calls that wait for a decision, of the caller and those it may decide on. */
export async function waitingCalls(gateway: Gateway): Promise<CallApproval[]> {
  const found: CallApproval[] = [];
  for (let cursor: string | undefined; ;) {
    const query = { state: 'pending', limit: PAGE, cursor };
    const { approvals, next } = await gateway.request('GET /api/v1/approvals', { query });
    found.push(...approvals);
    if (next === undefined) return found;
    cursor = next;
  }
}

/** Prints the calls that wait as a table. */
export function printCalls(terminal: Terminal, calls: readonly CallApproval[]): void {
  const rows = calls.map((call) => [
    call.id,
    call.tool,
    `${call.tenant_id}/${call.user_id}`,
    call.may_decide ? 'you' : 'others',
    call.decision.until.slice(0, 16).replace('T', ' '),
    plain(call.decision.questions.join('; ')),
  ]);
  terminal.out(table(['CALL', 'TOOL', 'MADE BY', 'DECIDED BY', 'UNTIL (UTC)', 'QUESTION'], rows, terminal.width));
}

/** `approvals show <call id>`: the requester, the question and the arguments with hidden characters as code points. */
export async function showCall({ gateway, json, terminal }: CommandContext, id: string): Promise<number> {
  const call = await gateway().request('GET /api/v1/approvals/{id}', { path: { id } });
  if (json) {
    terminal.out(`${jsonText(call, 2)}\n`);
    return EXIT.ok;
  }
  const { decision } = call;
  terminal.out(`${paint(terminal, 'bold', call.tool)}  ${call.state}\n`);
  for (const question of decision.questions) terminal.out(`${plain(question)}\n`);
  const who = decision.roles?.map((names) => names.join(' or ')).join(' and ') ?? decision.right ?? '';
  const rows: [string, string][] = [
    [
      'made by',
      `${call.tenant_id}/${call.user_id}${call.acting_user_id === call.user_id ? '' : ` for ${call.acting_user_id}`}`,
    ],
    ['over', call.entry_point],
    ['costs at most', `$${call.max_cost_usd}`],
    ['decided by', decision.quorum > 1 ? `${decision.quorum} people with ${who}` : who],
    ['until', decision.until],
    ['then', call.parked ? 'it runs' : 'its caller makes it again'],
    ...offered(decision.grant),
    ...call.votes.map((vote): [string, string] => [
      vote.decision,
      `${(vote.person ?? vote).user_id}${credentialOf(vote)} ${vote.at}${vote.note ? `: ${vote.note}` : ''}`,
    ]),
  ];
  terminal.out(facts(rows));
  if (call.shown !== undefined) terminal.out(`\n${call.shown.split('\n').map(plain).join('\n')}\n`);
  if (call.hidden_characters)
    terminal.out(paint(terminal, 'red', `\n${call.hidden_characters} hidden characters are shown as ‹U+…›\n`));
  if (call.may_decide) terminal.out(`\nfleetctl approvals approve ${call.id}   # or reject\n`);
  else if (call.why_not !== undefined && call.state === 'pending') terminal.out(`\n${plain(call.why_not)}\n`);
  return EXIT.ok;
}

/** How a person voted: with a key and its user, or signed in. */
function credentialOf({ via, key_id: key, user_id: user, person }: CallApproval['votes'][number]): string {
  if (key === undefined) return via === undefined ? '' : `, ${via}`;
  return `, key ${key}${(person?.user_id ?? user) === user ? '' : ` of ${user}`}`;
}

/** Grants that a yes can give. */
function offered(grant: CallApproval['decision']['grant']): [string, string][] {
  if (!grant) return [];
  const { for: covered, max_hours: hours, fields, max_uses: uses } = grant;
  const limits = [
    `--grant up to ${hours}h`,
    fields.length > 0 && `--vary ${fields.join(',')}`,
    uses && `${uses} calls`,
  ];
  return [['can also allow', `${covered.join('; ')} (${limits.filter(Boolean).join(', ')})`]];
}

/** `approvals approve <call id>` and `reject`. */
export async function decideCall(
  { gateway, json, terminal, line }: CommandContext,
  decision: 'approve' | 'reject',
  id: string,
): Promise<number> {
  const note = optionValue(line, 'note');
  const grant = readGrant(line);
  if (grant && decision === 'reject') throw new CliError('--grant belongs to approve', EXIT.usage);
  const sent = { path: { id }, body: { note, grant } };
  const call = await gateway().request(`POST /api/v1/approvals/{id}/${decision}`, sent);
  if (json) terminal.out(`${jsonText(call, 2)}\n`);
  else if (call.state === 'pending')
    terminal.out(`Approved; ${call.votes.length} of ${call.decision.quorum} people have\n`);
  else terminal.out(`${decision === 'approve' ? 'Approved' : 'Rejected'} ${call.tool} ${id}\n`);
  if (!json && call.grant_id !== undefined)
    terminal.out(`Grant ${call.grant_id}   # fleetctl approvals grants revoke\n`);
  return EXIT.ok;
}
