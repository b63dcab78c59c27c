import { toCurl, type FinishedCall, type FinishedCallDetail, type RouteAnswer } from '@toolfleet/client';
import { FILTERS, filtersOf } from '../call-filters.js';
import { CliError, EXIT } from '../cli-error.js';
import { type Columns, type Command, type CommandContext, noun, type Options, print, printTable } from '../command.js';
import { hasSwitch, numberOption, optionValue } from '../command-line.js';
import {
  AWAITING,
  describeProgress,
  hasEnded,
  pause,
  ProgressLine,
  waitForCall,
  type CallStatus,
} from '../follow-call.js';
import { type Gateway, Refused } from '../gateway.js';
import { readAllCalls, readCalls } from '../read-calls.js';
import { REPLAY_OPTIONS, replayAll } from '../replay-calls.js';
import { OUTPUT_OPTION, readOutput, showResult } from '../show-result.js';
import { facts, jsonText, paint, plain, type Terminal } from '../terminal.js';
import { waitingCalls } from './call-approvals.js';

type CallBodyAnswer = RouteAnswer<'GET /api/v1/calls/{id}/body'>;

/** Calls that `tail` begins with. */
const TAIL = 10;
/** Wait before a stream is opened again that the gateway closed. */
const AGAIN_MS = 1_000;

const FILTER_OPTIONS: Options = FILTERS.map(([name, , value, help]) => [`--${name} ${value}`, help]);
const LIMIT: Options = [['--limit <n>', 'number of calls, the newest; default 100, for a replay all']];

/** `fleetctl calls`: what happened to calls, and those that run in the background. */
export const calls: Command = noun('calls', {
  list: {
    options: [
      ...FILTER_OPTIONS,
      ...LIMIT,
      ['--before <cursor>', 'calls before this cursor, which the last list named'],
    ],
    run: listCalls,
  },
  sum: {
    options: [
      ...FILTER_OPTIONS,
      ['--by <groups>', 'tenant, day, tool, source, user, key, agent, status, code, separated by commas'],
    ],
    run: sumCalls,
  },
  show: {
    words: '<call_id>',
    options: [
      ['--watch', 'follow it until it ends, then show its result'],
      [
        '--show-body',
        'also arguments and result of the call of another, which is recorded; those of your own are always shown',
      ],
      OUTPUT_OPTION,
    ],
    run: (context, id) => showCall(context, id!),
  },
  replay: {
    words: '[call_id]',
    options: [...FILTER_OPTIONS, ...LIMIT, ...REPLAY_OPTIONS],
    run: replayCalls,
  },
  cancel: { words: '<call_id>', run: (context, id) => cancelCall(context, id!) },
  tail: { run: tailCalls },
  export: {
    options: [
      ...FILTER_OPTIONS,
      ['--format <ndjson|csv|parquet>', 'one JSON object a line, or a table with a head or with types; default ndjson'],
      [
        '--output FILE|s3://bucket/key|-',
        'a file, an object of S3-compatible storage (AWS_* in the environment), or standard output',
      ],
    ],
    // Writers of tables are large.
    run: async (context) => (await import('./export-calls.js')).exportCalls(context),
  },
});

async function listCalls(context: CommandContext): Promise<number> {
  const { line, json, terminal, gateway } = context;
  const query = { ...filtersOf(line), limit: numberOption(line, 'limit'), before: optionValue(line, 'before') };
  const body = await readCalls(gateway(), query);
  const columns: Columns<FinishedCall> = {
    ENDED: (call) => call.ended_at,
    TENANT: (call) => call.tenant_id,
    USER: (call) => call.user_id,
    TOOL: (call) => call.tool,
    STATUS: (call) => call.code ?? call.status,
    MS: (call) => Math.round(call.duration_ms),
    USD: (call) => call.cost_usd,
    CALL: (call) => call.call_id,
  };
  printTable(context, body.calls, columns, 'No calls', body);
  if (!json && body.next !== undefined) terminal.error(`Older calls: --before ${body.next}\n`);
  return EXIT.ok;
}

const GROUPS = ['tenant_id', 'day', 'tool', 'source', 'user_id', 'key_id', 'agent_id', 'status', 'code'] as const;

/** Shows the sums of calls by groups, those with the most calls first. */
async function sumCalls(context: CommandContext): Promise<number> {
  const { line, json, terminal, gateway } = context;
  const by = optionValue(line, 'by');
  if (by === undefined) throw new CliError('--by names what to sum by, such as tool,day', EXIT.usage);
  const { groups } = await readCalls(gateway(), { ...filtersOf(line), group_by: by, limit: 1 });
  const { rows = [], total, since } = groups ?? {};
  type Row = (typeof rows)[number];
  const names = GROUPS.filter((name) => rows.some((row) => row[name] !== undefined));
  const columns: Columns<Row> = {
    ...Object.fromEntries(names.map((name) => [name.replace('_id', '').toUpperCase(), (row: Row) => row[name]])),
    CALLS: (row) => row.calls,
    FAILED: (row) => row.failures,
    USD: (row) => row.cost_usd,
    TOKENS: (row) => row.tokens,
    'MEAN MS': (row) => row.mean_ms,
    'P50 MS': (row) => row.p50_ms,
    'P95 MS': (row) => row.p95_ms,
    'MAX MS': (row) => row.max_ms,
  };
  printTable(context, rows, columns, 'No calls', { rows, total, since });
  if (!json && since !== undefined)
    terminal.error(`Only calls since ${since}: older ones are too many for one request\n`);
  return EXIT.ok;
}

async function showCall({ line, json, terminal, gateway, signal }: CommandContext, id: string): Promise<number> {
  const output = readOutput(optionValue(line, 'output'));
  const fleet = gateway();
  if (hasSwitch(line, 'watch')) {
    const progress = new ProgressLine(terminal, id);
    const ended = waitForCall(fleet, id, signal, (update) => progress.update(update));
    const { tool, result } = await ended.finally(() => progress.stop());
    return showResult(terminal, result, { stem: tool ?? id, json, output });
  }
  const isAsked = output !== undefined || hasSwitch(line, 'show-body');
  const [state, record] = await Promise.all([
    orAbsent<CallStatus>(
      fleet.request('GET /api/v1/calls/{id}', { path: { id }, query: isAsked ? undefined : { content: 'own' } }),
    ),
    orAbsent(fleet.request('GET /api/v1/calls/{id}/record', { path: { id } })),
  ]);
  if (state instanceof Refused && record instanceof Refused) throw record;
  const read = unlessRefused(record);
  const isFree = read?.body === 'own' || read?.body === 'shared';
  const isRead = isFree || (read?.body === 'recorded' && hasSwitch(line, 'show-body'));
  const kept = isRead ? await orAbsent(fleet.request('GET /api/v1/calls/{id}/body', { path: { id } })) : undefined;
  const found = { state: unlessRefused(state), record: read, kept: kept && unlessRefused(kept) };
  const result = found.state?.result;
  const omitted = found.state?.result_omitted;
  if (output && omitted) throw new CliError(omitted.message, EXIT.refused);
  if (output && !result)
    throw new CliError(`The call has no result to write (${stateOf(found.state)}); --watch waits until it ends`);
  if (output) return showResult(terminal, result!, { stem: found.state?.tool ?? id, json, output });
  if (json) {
    terminal.out(`${jsonText(found, 2)}\n`);
    return EXIT.ok;
  }
  if (found.record)
    (result ? terminal.error : terminal.out)(
      describeCall(terminal, found.record) + describeBody(found.record, found.kept, fleet.connection.url),
    );
  if (result) return showResult(terminal, result, { stem: found.state?.tool ?? id, json });
  const { progress } = found.state ?? {};
  if (!found.record)
    terminal.out(`${id}  ${stateOf(found.state)}${progress ? `  ${describeProgress(progress)}` : ''}\n`);
  if (!found.record && hasWaiting(found.state)) terminal.out(await nextStep(fleet, id));
  if (omitted) terminal.error(`${omitted.message}${omitted.reason === 'recorded' ? ' --show-body shows it.' : ''}\n`);
  return EXIT.ok;
}

const hasWaiting = (state: CallStatus | undefined): boolean => stateOf(state) === AWAITING;

/** The questions of a parked call, and the commands that show and decide them. Approvals of programs have another id. */
async function nextStep(fleet: Gateway, callId: string): Promise<string> {
  const waiting = (await waitingCalls(fleet)).filter((one) => one.id === callId || one.call_id === callId);
  const lines = waiting.flatMap(({ id, decision, may_decide: mine, why_not: why }) => [
    ...decision.questions,
    `waits until ${decision.until} as approval ${id}${mine ? '' : `: ${why ?? 'others decide'}`}`,
    `  fleetctl approvals show ${id}`,
    `  fleetctl approvals approve ${id}   # or reject`,
  ]);
  return lines.map((line) => `${plain(line)}\n`).join('');
}

/** An answer, or the refusal of a missing record, or of a record that cannot be read now. */
function orAbsent<T>(answer: Promise<T>): Promise<T | Refused> {
  return answer.catch((error: unknown) => {
    if (error instanceof Refused && (error.status === 404 || error.status === 503)) return error;
    throw error;
  });
}

const unlessRefused = <T>(answer: T | Refused): T | undefined => (answer instanceof Refused ? undefined : answer);
const stateOf = (state: CallStatus | undefined): string => state?.state ?? state?.status ?? 'unknown';

function describeCall(terminal: Terminal, { call, made, logs }: FinishedCallDetail): string {
  const { stages, outcomes } = call;
  const tone = call.status === 'success' ? 'green' : 'red';
  const caller = [call.user_id, call.key_id && `key ${call.key_id}`, call.agent_id && `agent ${call.agent_id}`];
  const rows: [string, string | undefined][] = [
    ['ended', `${call.ended_at}, after ${call.duration_ms} ms`],
    [
      'stages',
      `admit ${stages.admit_ms}, wait ${stages.wait_ms}, queue ${stages.queue_ms}, execute ${stages.execute_ms}, rest ${stages.rest_ms} ms`,
    ],
    ['error', call.error],
    ['outcomes', `transport ${outcomes.transport}, protocol ${outcomes.protocol}, tool ${outcomes.tool}`],
    ['policy', call.policy && [call.policy, ...(call.policy_rules ?? [])].join(' ')],
    ['interceptors', call.interceptions?.join(', ')],
    ['caller', `${caller.filter(Boolean).join(', ')} of ${call.tenant_id}, over ${call.entry_point}`],
    ['client', call.client],
    [
      'tool',
      [call.source, call.revision && `revision ${call.revision}`, call.toolset && `toolset ${call.toolset}`]
        .filter(Boolean)
        .join(', ') || undefined,
    ],
    ['cost', `${call.cost_usd} USD, ${call.tokens} tokens`],
    ['answer', call.provenance],
    ['replay of', call.replay_of],
    ['made by', call.parent_call_id],
    ['trace', logs?.trace_url ?? call.trace_id],
    ...(call.retried ?? []).map((one): [string, string] => [
      `attempt ${one.attempt}`,
      `${one.error}; again after ${one.delay_ms} ms`,
    ]),
  ];
  const known = rows.flatMap(([name, value]): [string, string][] => (value === undefined ? [] : [[name, value]]));
  const children = made.map((one) => `made      ${lineOf(terminal, one)}\n`);
  const head = `${call.call_id}  ${oneLine(call.tool)}  ${paint(terminal, tone, oneLine(call.code ?? call.status))}`;
  return `${head}\n${facts(known, 10)}${children.join('')}`;
}

/** Arguments, errors, upstream answer and result, or why they are not shown. */
function describeBody(
  { body: access, call: { tool, source } }: FinishedCallDetail,
  kept: CallBodyAnswer | undefined,
  url: string,
): string {
  if (access === 'recorded' && !kept) return 'arguments and result: --show-body shows them; your reading is recorded\n';
  if (!kept) return access === 'denied' ? 'arguments and result: for the caller and the role auditor\n' : '';
  const { body, readings } = kept;
  const parts = (['arguments', 'errors', 'upstream', 'result'] as const).flatMap((part) => {
    const marks = (['cut', 'redacted'] as const).filter((mark) => body[mark]?.includes(part));
    const title = marks.length > 0 ? `${part} (${marks.join(', ')})` : part;
    return body[part] === undefined ? [] : [`${title}\n${jsonText(body[part], 2).replaceAll(/^/gm, '  ')}`];
  });
  const readers = readings.map((one) => `read by   ${oneLine(one.user_id)} of ${oneLine(one.tenant_id)}, ${one.at}`);
  // The name of a tool that was not found is not recorded.
  const isWhole =
    source !== undefined && body.arguments && !body.cut?.includes('arguments') && !body.redacted?.includes('arguments');
  const again = isWhole
    ? [`as curl\n${toCurl(new URL(url).origin, tool, body.arguments!).replaceAll(/^/gm, '  ')}`]
    : [];
  return `${[...parts, ...again, ...readers].join('\n')}\n`;
}

const oneLine = (text: string): string => plain(text).replaceAll(/\s+/g, ' ');

/** A call in one line. */
function lineOf(terminal: Terminal, call: FinishedCall): string {
  const status = paint(terminal, call.status === 'success' ? 'green' : 'red', oneLine(call.code ?? call.status));
  return [
    call.ended_at,
    call.call_id,
    oneLine(call.user_id),
    oneLine(call.tool),
    status,
    `${Math.round(call.duration_ms)} ms`,
  ].join('  ');
}

async function cancelCall(context: CommandContext, id: string): Promise<number> {
  const body = await context.gateway().request('DELETE /api/v1/calls/{id}', { path: { id } });
  const state: string = body?.status ?? 'cancelled';
  return print(context, body, `${id}  ${hasEnded(state) ? state : `cancellation requested (${state})`}`);
}

/** Repeats one call, or those that match the filters: failures unless a status is named. */
async function replayCalls(context: CommandContext, id = ''): Promise<number> {
  if (id !== '') return replayAll(context, [{ call_id: id }]);
  const query = { status: 'failure', ...withoutAbsent(filtersOf(context.line)) };
  const found = await readAllCalls(context.gateway(), query, numberOption(context.line, 'limit'));
  // A replay that failed is repeated by its id: with its origin, it would be the same call twice.
  return replayAll(
    context,
    found.filter((call) => call.replay_of === undefined),
  );
}

const withoutAbsent = <T extends object>(members: T): Partial<T> =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>;

/** Shows the last calls, and further ones as they end, until Ctrl-C. */
async function tailCalls({ json, terminal, gateway, signal }: CommandContext): Promise<number> {
  const fleet = gateway();
  const show = (call: FinishedCall) => terminal.out(`${json ? jsonText(call) : lineOf(terminal, call)}\n`);
  const { calls: last } = await readCalls(fleet, { limit: TAIL });
  last.forEach(show);
  for (let cursor = last.at(-1)?.cursor ?? '0'; ; await pause(AGAIN_MS, signal)) {
    for await (const call of fleet.finishedCalls(cursor)) {
      show(call);
      ({ cursor } = call);
    }
  }
}
