import type { RouteAnswer } from '@toolfleet/client';
import { CliError, EXIT } from './cli-error.js';
import type { CommandContext, Options } from './command.js';
import { hasSwitch, optionValue, type CommandLine } from './command-line.js';
import { pause } from './follow-call.js';
import { Refused } from './gateway.js';
import { jsonText, plain } from './terminal.js';

type Replayed = RouteAnswer<'POST /api/v1/calls/{id}/replay'>;

export const REPLAY_OPTIONS: Options = [
  ['--for-real', 'runs the tool for real; without it only tools without effects run, and the results are compared'],
  ['--include-unknown', 'with --for-real also calls with effects whose outcome is unknown'],
  ['--revision <revision>', 'runs this definition, which awaits an approval; see "fleetctl approvals"'],
  ['--rate <n>', 'calls a second at most; default 5'],
  ['--budget-usd <amount>', 'begins no call once the replays have cost as much'],
];

/** A call to repeat. */
interface Origin {
  call_id: string;
}

/**
 * Repeats calls one after another and shows what became of each. Refusals do not end it.
 * @returns 0 if every replay succeeded
 */
export async function replayAll(
  { line, json, terminal, gateway, signal }: CommandContext,
  origins: readonly Origin[],
): Promise<number> {
  const fleet = gateway();
  const everyMs = 1_000 / amountOption(line, 'rate', 5);
  const budget = amountOption(line, 'budget-usd', Infinity);
  const includesUnknown = hasSwitch(line, 'include-unknown');
  const body = {
    mode: hasSwitch(line, 'for-real') ? ('run' as const) : ('dry' as const),
    include_unknown: includesUnknown || undefined,
    revision: optionValue(line, 'revision'),
  };
  let spent = 0;
  let failures = 0;
  for (const [index, { call_id: id }] of origins.entries()) {
    if (spent >= budget) {
      terminal.error(`The budget is used up; ${origins.length - index} calls were not repeated\n`);
      return EXIT.failed;
    }
    if (index > 0) await pause(everyMs, signal);
    try {
      const answer = await fleet.request('POST /api/v1/calls/{id}/replay', { path: { id }, body });
      spent += answer.result.usage.cost_usd;
      if (!answer.result.success) failures += 1;
      terminal.out(json ? `${jsonText(answer)}\n` : describe(answer));
    } catch (error) {
      // One call that cannot be repeated does not keep the others from it.
      if (!(error instanceof Refused) || origins.length === 1) throw error;
      failures += 1;
      terminal.error(`${id}  ${plain(error.message)}\n`);
    }
  }
  if (!json && origins.length !== 1)
    terminal.error(`${origins.length - failures} of ${origins.length} replays succeeded, at ${spent} USD\n`);
  return failures === 0 ? EXIT.ok : EXIT.failed;
}

function describe({
  call_id: id,
  replay_of: origin,
  tool,
  result,
  changes,
  not_compared: why,
  revision,
}: Replayed): string {
  const outcome = result.success ? 'succeeded' : `failed: ${plain(result.error ?? '')}`;
  const lines = [`${origin} -> ${id}  ${plain(tool)}  ${outcome}`];
  if (revision.before !== revision.now) lines.push('  the definition of the tool has changed since');
  return `${[...lines, ...comparison({ changes, not_compared: why })].join('\n')}\n`;
}

/** How two results differ, or why that is not known, as indented lines. */
export function comparison({ changes, not_compared: why }: Pick<Replayed, 'changes' | 'not_compared'>): string[] {
  const lines = why === undefined ? [] : [`  not compared: ${plain(why)}`];
  if (changes?.length === 0) lines.push('  same result');
  for (const { path, before, after } of changes ?? []) {
    lines.push(`  ${plain(path) || 'result'}`);
    if (before !== undefined) lines.push(`  - ${jsonText(before)}`);
    if (after !== undefined) lines.push(`  + ${jsonText(after)}`);
  }
  return lines;
}

function amountOption(line: CommandLine, name: string, fallback: number): number {
  const text = optionValue(line, name);
  if (text === undefined) return fallback;
  const amount = /^\d{1,9}(\.\d{1,6})?$/.test(text) ? Number(text) : 0;
  if (amount <= 0) throw new CliError(`--${name} must be a number above 0`, EXIT.usage);
  return amount;
}
