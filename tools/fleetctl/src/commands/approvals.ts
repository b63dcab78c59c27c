import type { CallApproval, Json, QuarantinedTool } from '@toolfleet/client';
import { suggestion } from '@toolfleet/contracts/text';
import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import { hasSwitch } from '../command-line.js';
import type { Gateway } from '../gateway.js';
import { grantsCommand } from './approval-grants.js';
import { decideCall, isCallId, printCalls, showCall, waitingCalls } from './call-approvals.js';
import { comparison } from '../replay-calls.js';
import { jsonText, paint, plain, shellWord, table, type Terminal } from '../terminal.js';

/** Equal lines shown before and after a change. */
const CONTEXT_LINES = 2;

/** `fleetctl approvals`. */
export const approvals: Command = {
  usage:
    'approvals [list] | approvals show <call> | approvals show <tool> [--replay] | approvals approve <call> [--note <text>] [--grant <duration> [--vary <names>]] | approvals reject <call> [--note <text>] | approvals approve <tool> <revision> | approvals reject <tool> <revision> | approvals grants [list] [--ended] | approvals grants show|revoke <grant>',
  options: [
    ['--note <text>', 'approve, reject: kept with the decision on a call; its caller sees why it was rejected'],
    [
      '--grant <duration>',
      'approve: also allows calls like this one for so long (30m, 8h, 2d), where the policy offers it',
    ],
    ['--vary <names>', 'approve: arguments in which those may differ, separated by commas; default: none'],
    ['--max-uses <n>', 'approve: max number of those'],
    ['--ended', 'grants: also those that have ended'],
    [
      '--replay',
      'show: also runs the last calls without effects against the changed definition, and compares the results',
    ],
  ],
  verbs: ['list', 'show', 'approve', 'reject', 'grants'],
  mostWords: 3,
  known: ['note', 'grant', 'vary', 'max-uses', 'ended', 'replay'],
  async complete([verb, tool, revision], gateway) {
    if (verb === 'grants') return tool === undefined ? ['list', 'show', 'revoke'] : [];
    if (verb === 'list' || revision !== undefined) return [];
    const { tools: waiting, calls } = await listAll(gateway);
    if (tool === undefined) return [...waiting.map(({ name }) => name), ...calls.map(({ id }) => id)];
    return verb === 'show' ? [] : waiting.filter(({ name }) => name === tool).map((one) => one.pending_revision);
  },
  async run(context) {
    const [verb = 'list', ...rest] = context.words;
    if (verb === 'grants') {
      const done = grantsCommand(context, rest);
      if (!done) throw new CliError(`usage: fleetctl ${approvals.usage}`, EXIT.usage);
      return done;
    }
    const isCall = isCallId(rest[0] ?? '');
    const most = { list: 0, show: 1, approve: isCall ? 1 : 2, reject: isCall ? 1 : 2 }[verb];
    if (most === undefined || rest.length !== most)
      throw new CliError(`usage: fleetctl ${approvals.usage}`, EXIT.usage);
    const [tool = '', revision] = rest;
    if (verb === 'list') return list(context);
    if (verb === 'show') return isCall ? showCall(context, tool) : show(context, tool);
    if (isCall) return decideCall(context, verb as 'approve' | 'reject', tool);
    return decide(context, verb as 'approve' | 'reject', tool, revision as string);
  },
};

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
  { gateway, json, terminal }: CommandContext,
  decision: 'approve' | 'reject',
  name: string,
  revision: string,
): Promise<number> {
  const sent = { path: { name }, body: { pending_revision: revision } };
  const body = await gateway().request(`POST /api/v1/quarantine/{name}/${decision}`, sent);
  terminal.out(json ? `${jsonText(body, 2)}\n` : `${decision === 'approve' ? 'Approved' : 'Rejected'} ${name}\n`);
  return EXIT.ok;
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
