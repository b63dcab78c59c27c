import { CliError, EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { hasSwitch } from '../parse-argv.js';
import { ProgressLine, describeProgress } from '../progress-line.js';
import { UNFINISHED, waitForCall, type CallStatus } from '../wait-for-call.js';
import { showResult } from './call.js';
import { jsonText } from '../terminal.js';

/** `fleetctl jobs`: calls that run in the background. */
export const jobs: Command = {
  usage: 'jobs <call_id> [--watch] | jobs cancel <call_id>',
  summary: 'Show, follow or cancel an asynchronous call',
  options: [['--watch', 'Follow it until it has ended, then show its result']],
  known: ['watch'],
  verbs: ['cancel'],
  async run({ words, line, json, terminal, gateway, signal }) {
    const cancel = words[0] === 'cancel';
    const callId = words[cancel ? 1 : 0];
    if (callId === undefined || words.length > (cancel ? 2 : 1))
      throw new CliError(`usage: fleetctl ${jobs.usage}`, EXIT.usage);
    const path = `/api/v1/calls/${encodeURIComponent(callId)}`;
    if (hasSwitch(line, 'watch')) {
      const progress = new ProgressLine(terminal, callId);
      const result = await waitForCall(gateway(), callId, signal, (update) => progress.update(update)).finally(() =>
        progress.stop(),
      );
      return showResult(terminal, result, json);
    }
    const { body } = await gateway().ask<CallStatus>(cancel ? 'DELETE' : 'GET', path, undefined, signal);
    if (json) terminal.out(`${jsonText(body, 2)}\n`);
    else if (body?.result) return showResult(terminal, body.result, false);
    else
      terminal.out(
        `${callId}  ${stateOf(body, cancel)}${body?.progress ? `  ${describeProgress(body.progress)}` : ''}\n`,
      );
    return EXIT.ok;
  },
};

function stateOf(body: CallStatus | null, cancel: boolean): string {
  const state = body?.state ?? body?.status ?? (cancel ? 'cancelled' : 'unknown');
  return cancel && UNFINISHED.has(state) ? `told to stop (${state})` : state;
}
