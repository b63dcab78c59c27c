import type { FinishedCall } from '@toolfleet/client';
import { csvRow } from '@toolfleet/contracts/csv';
import { ByteWriter, parquetWriteRows } from 'hyparquet-writer';
import { filtersOf } from '../call-filters.js';
import { CliError, EXIT } from '../cli-error.js';
import type { CommandContext } from '../command.js';
import { optionValue } from '../command-line.js';
import { openSink, type ExportSink } from '../export-sink.js';
import { readCalls } from '../read-calls.js';
import { jsonText } from '../terminal.js';

/** Calls of one request. */
const PAGE = 500;
/** Rows of a row group, held in memory by an export to Parquet: about 20 MB. */
const ROW_GROUP = 10_000;

type Calls = AsyncIterable<FinishedCall>;

/** `calls export`: all calls that match, the oldest first. */
export async function exportCalls({ line, terminal, gateway, environment }: CommandContext): Promise<number> {
  const format = optionValue(line, 'format') ?? 'ndjson';
  const write = FORMATS.get(format);
  if (!write) throw new CliError(`--format must be ${[...FORMATS.keys()].join(', ')}, not ${format}`, EXIT.usage);
  const calls = allCalls(gateway(), filtersOf(line));
  const sink = openSink(optionValue(line, 'output'), terminal, environment);
  try {
    await write(calls, sink);
  } catch (error) {
    sink.abandon();
    throw error;
  }
  await sink.end();
  return EXIT.ok;
}

/** The pages of a search as one stream. */
async function* allCalls(fleet: Parameters<typeof readCalls>[0], query: Parameters<typeof readCalls>[1]): Calls {
  for (let after: string | undefined = '0'; after !== undefined;) {
    const page: Awaited<ReturnType<typeof readCalls>> = await readCalls(fleet, { ...query, after, limit: PAGE });
    yield* page.calls;
    after = page.next;
  }
}

const FORMATS = new Map<string, (calls: Calls, sink: ExportSink) => Promise<void>>([
  ['ndjson', writeLines],
  ['csv', writeTable],
  ['parquet', writeParquet],
]);

async function writeLines(calls: Calls, sink: ExportSink): Promise<void> {
  for await (const call of calls) sink.write(`${jsonText(call)}\n`);
}

async function writeTable(calls: Calls, sink: ExportSink): Promise<void> {
  sink.write(`${csvRow(COLUMNS.map(({ name }) => name))}\n`);
  for await (const call of calls) sink.write(`${csvRow(COLUMNS.map((column) => inTable(column.of(call))))}\n`);
}

const inTable = (value: Cell): string | number | undefined => (typeof value === 'object' ? value.join(' ') : value);

/** A Parquet file, row group by row group. */
async function writeParquet(calls: Calls, sink: ExportSink): Promise<void> {
  const rows = async function* () {
    for await (const call of calls)
      yield Object.fromEntries(COLUMNS.map(({ name, type, of }) => [name, TYPES[type].value(of(call) as never)]));
  };
  await parquetWriteRows({
    writer: new SinkWriter(sink),
    rows: rows(),
    columns: COLUMNS.map(({ name }) => ({ name })),
    schema: [{ name: 'root', num_children: COLUMNS.length }, ...COLUMNS.flatMap(toSchema)],
    rowGroupSize: ROW_GROUP,
    createdBy: 'toolfleet',
  });
}

/** Passes written bytes on after each row group. */
class SinkWriter extends ByteWriter {
  constructor(private readonly sink: ExportSink) {
    super();
  }

  flush(): void {
    this.sink.write(this.getBytes().slice());
    this.index = 0;
  }

  override finish(): void {
    this.flush();
  }
}

type Cell = string | number | readonly string[] | undefined;
type Type = keyof typeof TYPES;
type Schema = NonNullable<Parameters<typeof parquetWriteRows>[0]['schema']>;

/** Types of columns: their elements in the schema, and their values. Money is exact. */
const TYPES = {
  text: { element: { type: 'BYTE_ARRAY', converted_type: 'UTF8' }, value: (text?: string) => text },
  /** UTC, in milliseconds. */
  instant: {
    element: { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' },
    value: (text: string) => new Date(text),
  },
  count: { element: { type: 'INT64' }, value: (count?: number) => (count === undefined ? undefined : BigInt(count)) },
  /** USD with the six digits of the ledger: DECIMAL(18, 6). */
  money: {
    element: { type: 'INT64', converted_type: 'DECIMAL', precision: 18, scale: 6 },
    value: (usd: number) => BigInt(Math.round(usd * 1e6)),
  },
  milliseconds: { element: { type: 'DOUBLE' }, value: (ms: number) => ms },
  /** LIST of texts. */
  texts: { element: undefined, value: (texts?: readonly string[]) => texts },
} as const;

interface Column {
  name: string;
  type: Type;
  isRequired: boolean;
  of(call: FinishedCall): Cell;
}

function toSchema({ name, type, isRequired }: Column): Schema {
  const { element } = TYPES[type];
  const repetition_type = isRequired ? ('REQUIRED' as const) : ('OPTIONAL' as const);
  if (element) return [{ name, ...element, repetition_type }];
  return [
    { name, repetition_type, num_children: 1, converted_type: 'LIST' },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
    { name: 'element', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'REQUIRED' },
  ];
}

type Member = { [K in keyof FinishedCall]-?: FinishedCall[K] extends Cell ? K : never }[keyof FinishedCall];

const required = (type: Type, ...names: Member[]): Column[] =>
  names.map((name) => ({ name, type, isRequired: true, of: (call) => call[name] }));
const optional = (type: Type, ...names: Member[]): Column[] =>
  required(type, ...names).map((column) => ({ ...column, isRequired: false }));

/** Columns of tables, of both formats. */
const COLUMNS: readonly Column[] = [
  ...required('instant', 'ended_at'),
  ...required('text', 'call_id'),
  ...optional('text', 'parent_call_id', 'request_id', 'trace_id', 'idempotency_key', 'replay_of'),
  ...required('text', 'tenant_id', 'user_id'),
  ...optional('text', 'key_id', 'via', 'client', 'agent_id', 'task_id'),
  ...required('text', 'tool'),
  ...optional('text', 'revision', 'source', 'toolset', 'kind'),
  ...required('text', 'entry_point', 'origin', 'status'),
  ...optional('text', 'code', 'error', 'provenance', 'policy', 'approval_grant'),
  ...required('count', 'attempts'),
  ...required('milliseconds', 'duration_ms'),
  ...required('money', 'cost_usd'),
  ...required('count', 'tokens'),
  ...optional('count', 'body_bytes'),
  ...(['transport', 'protocol', 'tool'] as const).map((level): Column => ({
    name: `${level}_outcome`,
    type: 'text',
    isRequired: true,
    of: (call) => call.outcomes[level],
  })),
  ...(['admit_ms', 'wait_ms', 'queue_ms', 'execute_ms', 'rest_ms'] as const).map((stage): Column => ({
    name: stage,
    type: 'milliseconds',
    isRequired: true,
    of: (call) => call.stages[stage],
  })),
  ...optional('texts', 'roles', 'policy_rules', 'interceptions'),
];
