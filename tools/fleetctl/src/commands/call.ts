import type { JsonObject } from '@toolfleet/contracts';
import { CliError, EXIT } from '../cli-error.js';
import { TOOLSET_OPTION, type Command, type CommandContext } from '../command.js';
import { Refused, type Gateway, getTool } from '../gateway.js';
import { hasSwitch, optionValue, type CommandLine } from '../command-line.js';
import { ProgressLine, waitForCall } from '../follow-call.js';
import { OUTPUT_OPTION, readOutput, showResult } from '../show-result.js';
import { jsonText } from '../terminal.js';
import { CALL_OPTIONS, toolArguments } from '../tool-arguments.js';

/** `fleetctl call`. */
export const call: Command = {
  usage: 'call <tool> [--<argument> <value>…] [name=value…] [--arguments JSON|@file|-]',
  options: [
    ['-a, --arguments JSON', 'All arguments as JSON; @file reads a file, - standard input'],
    ['--async', 'Run it in the background and follow it'],
    ['--no-wait', 'With --async: print the call id and return'],
    ['--session-id <id>', 'Session of the call'],
    ['--timeout-ms <n>', 'Longest attempt in milliseconds'],
    ['--idempotency-key <key>', 'Make retries safe: calls with the same key run once'],
    ['--dry-run', 'Check arguments, permission and price without running the tool'],
    ['--no-retry', 'Make one attempt only'],
    ['--cache no-store|reload', 'Run the tool instead of reusing a result; reload keeps the new one for later calls'],
    TOOLSET_OPTION,
    OUTPUT_OPTION,
  ],
  async run(context) {
    const { line, words, terminal, json, signal } = context;
    const [name, ...rest] = words;
    if (name === undefined) {
      const [option] = [...line.options.keys()].filter((one) => !(CALL_OPTIONS as readonly string[]).includes(one));
      const hint = option === undefined ? '' : `the tool is missing before --${option}; `;
      throw new CliError(`${hint}usage: fleetctl ${call.usage}`, EXIT.usage);
    }
    const { fleet, schema, claimed } = await resolveTool(context, name, rest);
    const args = await toolArguments(line, rest, schema, terminal.readInput, claimed);
    const output = claimed.has('output') ? undefined : readOutput(optionValue(line, 'output'));
    const progress = new ProgressLine(terminal, name);
    try {
      const body = await fleet.request('POST /api/v1/tools/{name}/execute', {
        path: { name },
        query: { toolset: optionValue(line, 'toolset') },
        body: { ...callFields(line, claimed), arguments: args },
        signal,
      });
      if ('success' in body) return showResult(terminal, body, { stem: name, json, output });
      const { call_id: callId } = body;
      if (hasSwitch(line, 'no-wait')) {
        terminal.out(json ? `${jsonText(body)}\n` : `${callId}\n`);
        return 0;
      }
      const { result } = await waitForCall(fleet, callId, signal, (update) => progress.update(update));
      progress.stop();
      return showResult(terminal, result, { stem: name, json, output });
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

/** The schema is needed to convert options and words, but not for JSON. */
function needsSchema(line: CommandLine, words: readonly string[]): boolean {
  return (
    words.length > 0 ||
    line.rest.length > 0 ||
    [...line.options.keys()].some((option) => !['arguments', 'json', 'url', 'key', 'toolset'].includes(option))
  );
}

/** Options of fleetctl that are also common names of arguments. */
const SHARED_NAMES = ['url', 'key', 'output', 'cache'] as const;
const CONNECTION_NAMES: readonly string[] = ['url', 'key'];

/**
 * The gateway, the tool's schema, and which of fleetctl's options after the tool's name are arguments of the tool: those that the
 * tool has, if the gateway is known without them.
 */
async function resolveTool(
  { gateway, line, signal }: CommandContext,
  name: string,
  words: readonly string[],
): Promise<{ fleet: Gateway; schema: JsonObject; claimed: ReadonlySet<string> }> {
  const toolset = optionValue(line, 'toolset');
  const shared = SHARED_NAMES.filter((one) => line.options.has(one) && !line.own.has(one));
  const ofConnection = new Set<string>(shared.filter((one) => CONNECTION_NAMES.includes(one)));
  const claim = ({ schema }: { schema: JsonObject }) =>
    new Set<string>(shared.filter((one) => Object.hasOwn((schema['properties'] ?? {}) as object, one)));
  if (ofConnection.size > 0) {
    const found = await schemaAt(() => gateway(ofConnection), name, signal, toolset).catch(() => undefined);
    const claimed = found && claim(found);
    if (claimed && [...ofConnection].every((one) => claimed.has(one))) return { ...found, claimed };
  }
  if (!needsSchema(line, words)) return { fleet: gateway(), schema: {}, claimed: new Set() };
  const found = await schemaAt(() => gateway(), name, signal, toolset);
  const claimed = claim(found);
  for (const one of ofConnection) claimed.delete(one);
  return { ...found, claimed };
}

async function schemaAt(
  connect: () => Gateway,
  name: string,
  signal: AbortSignal,
  toolset: string | undefined,
): Promise<{ fleet: Gateway; schema: JsonObject }> {
  const fleet = connect();
  return { fleet, schema: (await getTool(fleet, name, signal, toolset)).parameters };
}

function callFields(line: CommandLine, claimed: ReadonlySet<string>): JsonObject {
  const fields: JsonObject = {};
  for (const option of ['session-id', 'idempotency-key', 'request-id', 'agent-id', 'task-id']) {
    const value = optionValue(line, option);
    if (value !== undefined) fields[option.replaceAll('-', '_')] = value;
  }
  const timeout = optionValue(line, 'timeout-ms');
  if (timeout !== undefined) {
    if (!/^\d+$/.test(timeout)) throw new CliError('--timeout-ms must be a non-negative integer', EXIT.usage);
    fields['timeout_ms'] = Number(timeout);
  }
  const cache = claimed.has('cache') ? undefined : optionValue(line, 'cache');
  if (cache !== undefined) {
    if (cache !== 'no-store' && cache !== 'reload')
      throw new CliError('--cache must be no-store or reload', EXIT.usage);
    fields['cache'] = cache;
  }
  if (hasSwitch(line, 'async')) fields['mode'] = 'async';
  if (hasSwitch(line, 'dry-run')) fields['dry_run'] = true;
  if (hasSwitch(line, 'no-retry')) fields['no_retry'] = true;
  return fields;
}
