import type { CallApproval, Json, QuarantinedTool } from '@toolfleet/client';
import { suggestion } from '@toolfleet/contracts/text';
import { CliError, EXIT } from '../cli-error.js';
import { type Command, type CommandContext, noun, type Options, print } from '../command.js';
import { hasSwitch } from '../command-line.js';
import type { Gateway } from '../gateway.js';
import { grantsCommand } from './approval-grants.js';
import { decideCall, isCallId, printCalls, showCall, waitingCalls } from './call-approvals.js';
import { comparison } from '../replay-calls.js';
import { jsonText, paint, plain, shellWord, table, type Terminal } from '../terminal.js';

/** Equal lines shown before and after a change. */
const CONTEXT_LINES = 2;

const NOTE: Options = [['--note <text>', 'kept with the decision on a call; its caller sees why it was rejected']];

/** `fleetctl approvals`. */
export const approvals: Command = noun(
  'approvals',
  {
    list: { run: list },
    show: {
      words: '<call|tool>',
      options: [
        [
          '--replay',
          'of a tool: also runs the last calls without effects against the changed definition, and compares the results',
        ],
      ],
      run: (context, id = '') => (isCallId(id) ? showCall(context, id) : show(context, id)),
    },
    approve: {
      words: '<call> | <tool> <revision>',
      options: [
        ...NOTE,
        ['--grant <duration>', 'also allows calls like this one for so long (30m, 8h, 2d), where the policy offers it'],
        ['--vary <names>', 'arguments in which those may differ, separated by commas; default: none'],
        ['--max-uses <n>', 'max number of those'],
      ],
      run: (context, id, revision) => decideOn(context, 'approve', id!, revision),
    },
    reject: {
      words: '<call> | <tool> <revision>',
      options: NOTE,
      run: (context, id, revision) => decideOn(context, 'reject', id!, revision),
    },
    grants: {
      words: ' | list | show <grant> | revoke <grant>',
      options: [['--ended', 'also those that have ended']],
      run: grantsCommand,
    },
  },
  async ([verb, tool, revision], gateway) => {
    if (verb === 'grants') return tool === undefined ? ['list', 'show', 'revoke'] : [];
    if (verb === 'list' || revision !== undefined) return [];
    const { tools: waiting, calls } = await listAll(gateway);
    if (tool === undefined) return [...waiting.map(({ name }) => name), ...calls.map(({ id }) => id)];
    return verb === 'show' ? [] : waiting.filter(({ name }) => name === tool).map((one) => one.pending_revision);
  },
);

/** Decides on a call, or on the revision of a tool. @throws CliError */
function decideOn(
  context: CommandContext,
  decision: 'approve' | 'reject',
  id: string,
  revision: string | undefined,
): Promise<number> {
  if (isCallId(id) !== (revision === undefined))
    throw new CliError(`usage: fleetctl approvals ${decision} <call>, or <tool> <revision>`, EXIT.usage);
  return revision === undefined ? decideCall(context, decision, id) : decide(context, decision, id, revision);
}

async function list({ gateway, json, terminal }: CommandContext): Promise<number> {
  const { calls, tools: waiting } = await listAll(gateway());
  if (json) terminal.out(`${jsonText({ calls, tools: waiting }, 2)}\n`);
  else if (waiting.length + calls.length === 0) terminal.out('Nothing awaits a decision\n');
  else if (calls.length > 0) printCalls(terminal, calls);
  if (!json && waiting.length > 0) {
    const rows = waiting.map((tool) => [
      tool.name,
      `${tool.source.kind}/${tool.source.name}`,
      tool.rejected ? `rejected by ${tool.rejected.by}` : 'waiting',
      new Date(tool.since_at).toISOString().slice(0, 16).replace('T', ' '),
      tool.reason,
    ]);
    terminal.out(table(['TOOL', 'SOURCE', 'STATE', 'SINCE (UTC)', 'REASON'], rows, terminal.width));
  }
  return EXIT.ok;
}

async function show({ gateway, line, json, terminal }: CommandContext, name: string): Promise<number> {
  const tool = await findWaiting(gateway(), name);
  const tried = hasSwitch(line, 'replay') ? await tryPending(gateway(), tool) : undefined;
  if (json) {
    terminal.out(`${jsonText(tried ? { ...tool, ...tried } : tool, 2)}\n`);
    return EXIT.ok;
  }
  terminal.out(`${paint(terminal, 'bold', tool.name)}  ${plain(tool.reason)}\n`);
  for (const { field, before, after } of tool.diff) {
    terminal.out(`\n${field}\n`);
    printDifference(terminal, toLines(before), toLines(after));
  }
  if (tool.diff_omitted)
    terminal.out('\nThe changes are too large to show with the others; decide on other tools first.\n');
  if (tried) {
    const { replays, note } = tried;
    terminal.out(`\nresults${note === undefined ? '' : `: ${plain(note)}`}\n`);
    for (const one of replays)
      terminal.out(`${[`${one.replay_of} of ${one.ended_at}`, ...comparison(one)].join('\n')}\n`);
  }
  const decision = `fleetctl approvals approve ${shellWord(tool.name)} ${shellWord(tool.pending_revision)}`;
  terminal.out(`\n${decision}   # or reject\n`);
  return EXIT.ok;
}

async function decide(
  context: CommandContext,
  decision: 'approve' | 'reject',
  name: string,
  revision: string,
): Promise<number> {
  const sent = { path: { name }, body: { pending_revision: revision } };
  const body = await context.gateway().request(`POST /api/v1/quarantine/{name}/${decision}`, sent);
  return print(context, body, `${decision === 'approve' ? 'Approved' : 'Rejected'} ${name}`);
}

/** What waits: calls, and tools for those who may decide on them. */
async function listAll(gateway: Gateway): Promise<{ calls: CallApproval[]; tools: QuarantinedTool[] }> {
  const { rights } = await gateway.request('GET /api/v1/me');
  const seesTools = rights.includes('approve_tools');
  const [calls, tools] = await Promise.all([waitingCalls(gateway), seesTools ? listWaiting(gateway) : []]);
  return { calls, tools };
}

/** Runs the last calls of a tool against its changed definition. */
function tryPending(gateway: Gateway, { name, pending_revision }: QuarantinedTool) {
  return gateway.request('POST /api/v1/quarantine/{name}/replay', { path: { name }, body: { pending_revision } });
}

function listWaiting(gateway: Gateway): Promise<QuarantinedTool[]> {
  return gateway.request('GET /api/v1/quarantine');
}

/** The tool with this name; a plain name also means a tool of the caller's tenant, listed as `tenant/name`. */
async function findWaiting(gateway: Gateway, name: string): Promise<QuarantinedTool> {
  const waiting = await listWaiting(gateway);
  const named = waiting.filter((tool) => tool.name === name || tool.name.endsWith(`/${name}`));
  const exact = named.find((tool) => tool.name === name) ?? named[0];
  if (named.length > 1 && exact?.name !== name)
    throw new CliError(`Several tenants have a tool ${name}: ${named.map((tool) => tool.name).join(', ')}`, EXIT.usage);
  if (exact) return exact;
  const known = waiting.map((tool) => tool.name);
  const hint = `${suggestion(name, known)} (see "fleetctl approvals")`;
  throw new CliError(`No definition of ${JSON.stringify(name)} awaits a decision${hint}`, EXIT.failed);
}

/** Lines of a value. Invisible characters are escaped: a text that hides instructions must not look harmless. */
function toLines(value: Json): string[] {
  if (value === null) return [];
  if (typeof value !== 'string') return jsonText(value, 2).split('\n');
  return value.split('\n').map((line) => jsonText(line).slice(1, -1));
}

/** The changed lines, with a few equal ones around them. */
function printDifference(terminal: Terminal, before: readonly string[], after: readonly string[]): void {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  const room = Math.min(before.length, after.length) - start;
  while (end < room && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
  const same = (lines: readonly string[]) => lines.map((line) => `    ${line}\n`).join('');
  const tail = after.length - end;
  terminal.out(same(after.slice(Math.max(0, start - CONTEXT_LINES), start)));
  for (const line of before.slice(start, before.length - end))
    terminal.out(paint(terminal, 'red', `  - ${line}`) + '\n');
  for (const line of after.slice(start, tail)) terminal.out(paint(terminal, 'green', `  + ${line}`) + '\n');
  terminal.out(same(after.slice(tail, tail + CONTEXT_LINES)));
}
