import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { RouteRequest, RuleTestResult, ToolsetSpec } from '@toolfleet/client';
import { FILTERS, filtersOf } from '../call-filters.js';
import { CliError, EXIT } from '../cli-error.js';
import { type Command, type CommandContext, noun, print } from '../command.js';
import { hasSwitch, optionValue } from '../command-line.js';
import { plain, table, type Terminal } from '../terminal.js';
import { readJsonObject } from '../tool-arguments.js';
import { LIMIT_OPTIONS, readLimits, readName } from './budgets.js';

type RuleTest = RouteRequest<'POST /api/v1/rules/test'>['body'];
type Rule = Pick<RuleTest, 'policy' | 'rate_limit' | 'toolset' | 'budget' | 'tenant_id'>;

/** Filters of recorded calls that a test takes. */
const TESTED = new Set(['from', 'to', 'tool', 'source', 'user', 'key-id', 'agent', 'tenant']);
const DEFAULT_FROM = '30d';

/** `fleetctl rules test`. */
export const rules: Command = noun('rules', {
  test: {
    words: 'policy <path> … | limit <tool> <per-minute> | toolset <name> <JSON> | budget <user|key|tenant> <id>',
    options: [
      ...FILTERS.filter(([name]) => TESTED.has(name)).map(
        ([name, , value, help]) => [`--${name} ${value}`, help] as const,
      ),
      ['--read-arguments', 'policy: reads kept arguments where it asks for them; each reading is recorded (auditors)'],
      ...LIMIT_OPTIONS,
    ],
    run: test,
  },
});

async function test(context: CommandContext, kind = '', ...words: string[]): Promise<number> {
  const { line, gateway, terminal } = context;
  const { from = new Date(Date.now() - 30 * 86_400_000).toISOString(), ...filters } = filtersOf(line);
  const read_arguments = hasSwitch(line, 'read-arguments') || undefined;
  const body: RuleTest = { ...filters, from, read_arguments, ...(await KINDS[kind]!(context, words)) };
  const result = await gateway().request('POST /api/v1/rules/test', { body });
  if (context.json) return print(context, result, '');
  show(terminal, result, optionValue(line, 'from') ?? DEFAULT_FROM);
  return EXIT.ok;
}

const KINDS: Readonly<Record<string, (context: CommandContext, words: readonly string[]) => Rule | Promise<Rule>>> = {
  policy: (_, paths) => ({ policy: { files: paths.flatMap(policyFiles) } }),
  limit: (_, [tool = '', perMinute = '']) => {
    if (!/^\d{1,9}$/.test(perMinute)) throw new CliError('The calls per minute must be a number', EXIT.usage);
    return { rate_limit: { tool, per_minute: Number(perMinute) } };
  },
  toolset: async ({ terminal }, [name = '', source]) => {
    const spec = (await readJsonObject(source, '--toolset', () => terminal.readInput())) as ToolsetSpec;
    return { toolset: { name, spec } };
  },
  budget: ({ line }, [subject = '', id = '']) => {
    const { tenant_id, ...named } = readName(line, subject, id);
    return { budget: { ...named, ...readLimits(line) }, tenant_id };
  },
};

/** A file, or the files of a folder that services read as a policy. @throws CliError */
function policyFiles(path: string): { name: string; text: string }[] {
  try {
    const isFolder = statSync(path).isDirectory();
    const names = isFolder
      ? readdirSync(path).filter((name) => name.endsWith('.rego') || name === 'data.json')
      : [basename(path)];
    if (names.length === 0) throw new CliError(`no *.rego file in ${path}`, EXIT.usage);
    return names.map((name) => ({ name, text: readFileSync(isFolder ? join(path, name) : path, 'utf8') }));
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw new CliError(`${path} cannot be read: ${(error as Error).message}`, EXIT.usage);
  }
}

function show(terminal: Terminal, result: RuleTestResult, asked: string): void {
  const { calls, refused, asked: questions, admitted, still_refused: still, undecidable } = result;
  const number = (value: number) => value.toLocaleString('en-US');
  const since = /^\d+[smhd]$/.test(asked) ? `of the last ${asked}` : `since ${result.from}`;
  const reasons = result.reasons.map(({ reason, calls: times }) => `${plain(reason)} (${number(times)})`);
  const why = reasons.length > 0 ? `: ${reasons.join(', ')}` : '';
  const isAsked = refused === 0 && questions > 0;
  terminal.out(`would have refused ${number(refused)} of ${number(calls)} calls ${since}${isAsked ? '' : why}\n`);
  const facts: [number, string][] = [
    [questions, `would wait for the approval of a person${isAsked ? why : ''}`],
    [still, 'were refused then, and would be again'],
    [admitted, 'were refused then, and would not be'],
    [
      undecidable,
      `not decidable: ${result.unrecorded.map(({ fact, calls: times }) => `${fact} (${number(times)})`).join(', ')}`,
    ],
    [result.not_reached, 'ended before the rule'],
  ];
  for (const [value, text] of facts) if (value > 0) terminal.out(`  ${number(value)} ${plain(text)}\n`);
  if (result.examples.length > 0) {
    const rows = result.examples.map((one) => [one.verdict, one.call_id, one.tool, one.user_id, one.reason]);
    terminal.out(table(['VERDICT', 'CALL', 'TOOL', 'USER', 'REASON'], rows, terminal.width));
  }
  for (const note of result.notes) terminal.error(`${plain(note)}\n`);
  if (result.is_partial) terminal.error(`Only calls since ${result.from}: older ones are too many for one test\n`);
}
