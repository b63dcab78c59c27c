import type { JsonObject } from '@toolfleet/contracts';
import { EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { jsonText, paint, plain } from '../terminal.js';

/** `fleetctl health`. */
export const health: Command = {
  usage: 'health',
  summary: 'Show whether the fleet is reachable and ready for calls',
  mostWords: 0,
  known: [],
  async run({ json, terminal, gateway, signal }) {
    const fleet = gateway();
    const alive = await fleet.raw<JsonObject>('GET', '/health', undefined, signal);
    const ready = await fleet.raw<JsonObject>('GET', '/readiness', undefined, signal);
    const healthy = alive.status === 200 && ready.status === 200;
    if (json) {
      terminal.out(
        `${jsonText({ url: fleet.connection.url, healthy, health: alive.body, readiness: ready.body }, 2)}\n`,
      );
    } else {
      terminal.out(
        `${fleet.connection.url}  ${healthy ? paint(terminal, 'green', 'ready') : paint(terminal, 'red', alive.status === 200 ? 'alive, but not ready' : `HTTP ${alive.status}`)}\n`,
      );
      for (const [part, state] of Object.entries(readChecks(ready.body)))
        terminal.out(`  ${plain(part)}: ${plain(typeof state === 'string' ? state : jsonText(state))}\n`);
    }
    return healthy ? EXIT.ok : EXIT.failed;
  },
};

function readChecks(body: JsonObject | null): JsonObject {
  const parts = body?.['parts'] ?? body?.['checks'] ?? body;
  return typeof parts === 'object' && parts !== null && !Array.isArray(parts) ? parts : {};
}
