import type { AcceptedBody, CallBody, JsonObject } from '@toolfleet/contracts';
import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import { Refused, type Gateway } from '../gateway.js';
import { hasSwitch, optionValue, type CommandLine } from '../parse-argv.js';
import { ProgressLine } from '../progress-line.js';
import { jsonText, paint, plain, type Terminal } from '../terminal.js';
import { toolArguments } from '../tool-arguments.js';
import { toolNamed } from '../tool-named.js';
import { waitForCall } from '../wait-for-call.js';

/** `fleetctl call`. */
export const call: Command = {
  usage: 'call <tool> [--<argument> <value>…] [name=value…] [--arguments JSON|@file|-]',
  summary: 'Call a tool and show its result',
  options: [
    ['-a, --arguments JSON', 'All arguments as JSON; @file reads a file, - standard input'],
    ['--async', 'Let the fleet run it in the background and follow it'],
    ['--no-wait', 'With --async: print the call id and return'],
    ['--session-id <id>', 'Session the call belongs to'],
    ['--timeout-ms <n>', 'Longest attempt in milliseconds'],
    ['--idempotency-key <key>', 'Repeat safely: the same key runs once'],
    ['--dry-run', 'Check arguments, permission and price, run nothing'],
    ['--no-retry', 'One attempt only'],
  ],
  async run(context) {
    const { line, words, terminal, json, signal } = context;
    const [name, ...rest] = words;
    if (name === undefined) throw new CliError(`usage: fleetctl ${call.usage}`, EXIT.usage);
    const path = `/api/v1/tools/${encodeURIComponent(name)}`;
    const { fleet, schema, claimed } = await toolOf(context, name, rest);
    const args = await toolArguments(line, rest, schema, terminal.readInput, claimed);
    const progress = new ProgressLine(terminal, name);
    try {
      const { body, status } = await fleet.ask<CallBody | AcceptedBody>(
        'POST',
        `${path}/execute`,
        { arguments: args, ...callFields(line) },
        signal,
      );
      if (status !== 202) return showResult(terminal, body as CallBody, json);
      const { call_id: callId } = body as AcceptedBody;
      if (hasSwitch(line, 'no-wait')) {
        terminal.out(json ? `${jsonText(body)}\n` : `${callId}\n`);
        return 0;
      }
      const result = await waitForCall(fleet, callId, signal, (update) => progress.update(update));
      progress.stop();
      return showResult(terminal, result, json);
    } catch (error) {
      progress.stop();
      if (json && error instanceof Refused) {
        terminal.out(`${jsonText(error.body, 2)}\n`);
        return error.exitCode;
      }
      throw error;
    } finally {
      progress.stop();
    }
  },
};

/** Flags and words need the tool's types; JSON does not. */
function needsSchema(line: CommandLine, words: readonly string[]): boolean {
  return (
    words.length > 0 ||
    line.rest.length > 0 ||
    [...line.options.keys()].some((option) => !['arguments', 'json', 'url', 'key'].includes(option))
  );
}

/** Options of fleetctl that a tool may have an argument of the same name for. */
const SHARED_NAMES = ['url', 'key'] as const;

/** The fleet, the tool's schema, and which of fleetctl's options behind the tool's name are the tool's. */
async function toolOf(
  { gateway, line, signal }: CommandContext,
  name: string,
  words: readonly string[],
): Promise<{ fleet: Gateway; schema: JsonObject; claimed: ReadonlySet<string> }> {
  const shared = new Set<string>(SHARED_NAMES.filter((one) => line.options.has(one) && !line.own.has(one)));
  if (shared.size > 0) {
    // `call fetch_page --url …`: the page's address, if the fleet is known without it and the tool has such an argument.
    const found = await schemaAt(() => gateway(shared), name, signal).catch(() => undefined);
    const properties = found?.schema['properties'] ?? {};
    const claimed = new Set([...shared].filter((one) => Object.hasOwn(properties as object, one)));
    if (found && claimed.size === shared.size) return { ...found, claimed };
  }
  if (!needsSchema(line, words)) return { fleet: gateway(), schema: {}, claimed: new Set() };
  return { ...(await schemaAt(() => gateway(), name, signal)), claimed: new Set() };
}

async function schemaAt(
  connect: () => Gateway,
  name: string,
  signal: AbortSignal,
): Promise<{ fleet: Gateway; schema: JsonObject }> {
  const fleet = connect();
  return { fleet, schema: (await toolNamed(fleet, name, signal)).parameters };
}

function callFields(line: CommandLine): JsonObject {
  const fields: JsonObject = {};
  for (const option of ['session-id', 'idempotency-key', 'request-id', 'agent-id', 'task-id']) {
    const value = optionValue(line, option);
    if (value !== undefined) fields[option.replaceAll('-', '_')] = value;
  }
  const timeout = optionValue(line, 'timeout-ms');
  if (timeout !== undefined) {
    if (!/^\d+$/.test(timeout)) throw new CliError('--timeout-ms must be a whole number', EXIT.usage);
    fields['timeout_ms'] = Number(timeout);
  }
  if (hasSwitch(line, 'async')) fields['mode'] = 'async';
  if (hasSwitch(line, 'dry-run')) fields['dry_run'] = true;
  if (hasSwitch(line, 'no-retry')) fields['no_retry'] = true;
  return fields;
}

/** Shows a finished call. The result goes to standard output alone, so that it can be piped. */
export function showResult(terminal: Terminal, body: CallBody, json: boolean): number {
  if (json) terminal.out(`${jsonText(body, 2)}\n`);
  else if (body.success) {
    terminal.out(`${plain(body.text === '' ? jsonText(body.output, 2) : body.text)}\n`);
    const provenance = String(body.metadata?.['provenance'] ?? 'live');
    const note = `${Math.round(body.execution_time_ms)} ms, $${body.usage.cost_usd}${provenance === 'live' ? '' : `, ${provenance}`}, ${body.call_id}`;
    if (terminal.interactive) terminal.error(`${paint(terminal, 'dim', note)}\n`);
  } else {
    terminal.error(
      `${paint(terminal, 'red', 'failed')}: ${plain(body.error ?? 'unknown error')}\n  call_id: ${body.call_id}\n`,
    );
  }
  return body.success ? EXIT.ok : EXIT.failed;
}
