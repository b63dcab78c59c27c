import type { Fleet } from '@toolfleet/client';
import type { JsonObject } from '@toolfleet/contracts';
import { EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { jsonText, paint, plain } from '../terminal.js';

/** `fleetctl health`. */
export const health: Command = {
  usage: 'health',
  summary: 'Show whether the fleet is ready for calls, and to operators what is wrong with its configuration',
  mostWords: 0,
  known: [],
  async run({ json, terminal, gateway, signal }) {
    const fleet = gateway();
    const alive = await fleet.raw<JsonObject>('GET', '/health', undefined, signal);
    const ready = await fleet.raw<JsonObject>('GET', '/readiness', undefined, signal);
    const { status, body: seen } = await fleet.raw<Fleet>('GET', '/api/v1/fleet', undefined, signal);
    // Unknown to anyone but operators, and while the fleet is not ready.
    const faults = status === 200 ? seen.faults : null;
    const healthy = alive.status === 200 && ready.status === 200;
    if (json) {
      terminal.out(
        `${jsonText({ url: fleet.connection.url, healthy, health: alive.body, readiness: ready.body, faults }, 2)}\n`,
      );
    } else {
      terminal.out(
        `${fleet.connection.url}  ${healthy ? paint(terminal, 'green', 'ready') : paint(terminal, 'red', alive.status === 200 ? 'alive, but not ready' : `HTTP ${alive.status}`)}\n`,
      );
      for (const [part, state] of Object.entries(readChecks(ready.body)))
        terminal.out(`  ${plain(part)}: ${plain(typeof state === 'string' ? state : jsonText(state))}\n`);
      for (const { service, subject, message, since } of faults ?? [])
        terminal.out(
          paint(terminal, 'yellow', `  ${service}: ${subject}: ${message} (since ${since.replace(/\.\d+Z$/, 'Z')})`) +
            '\n',
        );
    }
    return healthy ? EXIT.ok : EXIT.failed;
  },
};

function readChecks(body: JsonObject | null): JsonObject {
  const parts = body?.['parts'] ?? body?.['checks'] ?? body;
  return typeof parts === 'object' && parts !== null && !Array.isArray(parts) ? parts : {};
}
