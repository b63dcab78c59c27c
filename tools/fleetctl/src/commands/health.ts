import type { Fleet } from '@toolfleet/client';
import type { JsonObject } from '@toolfleet/contracts';
import { EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { Refused } from '../gateway.js';
import { jsonText, paint, plain } from '../terminal.js';

/** `fleetctl health`. */
export const health: Command = {
  usage: 'health',
  mostWords: 0,
  known: [],
  async run({ json, terminal, gateway, signal }) {
    const fleet = gateway();
    const alive = await orRefusal(fleet.request('GET /health', { signal }));
    const ready = await orRefusal(fleet.request('GET /readiness', { signal }));
    const seen = await orRefusal(fleet.request('GET /api/v1/fleet', { signal }));
    // Unknown to anyone but operators, and while the fleet is not ready.
    const faults = seen.status === 200 ? (seen.body as Fleet).faults : null;
    const healthy = alive.status === 200 && ready.status === 200;
    if (json) {
      terminal.out(
        `${jsonText({ url: fleet.connection.url, healthy, health: alive.body, readiness: ready.body, faults }, 2)}\n`,
      );
    } else {
      terminal.out(
        `${fleet.connection.url}  ${healthy ? paint(terminal, 'green', 'ready') : paint(terminal, 'red', alive.status === 200 ? 'alive, but not ready' : `HTTP ${alive.status}`)}\n`,
      );
      for (const [part, state] of Object.entries(readChecks(ready.body as JsonObject)))
        terminal.out(`  ${plain(part)}: ${plain(typeof state === 'string' ? state : jsonText(state))}\n`);
      const told = new Map<string, Fleet['faults']>();
      for (const fault of faults ?? []) {
        const text = `${fault.subject}: ${fault.message}`;
        told.set(text, [...(told.get(text) ?? []), fault]);
      }
      for (const [text, same] of told) {
        const services = same.map(({ service }) => service).join(', ');
        const since = same[0]!.since.replace(/\.\d+Z$/, 'Z');
        terminal.out(`${paint(terminal, 'yellow', `  ${services}: ${text} (since ${since})`)}\n`);
      }
    }
    return healthy ? EXIT.ok : EXIT.failed;
  },
};

/** The body of an answer of any status. */
function orRefusal(asked: Promise<object>): Promise<{ status: number; body: object }> {
  return asked.then(
    (body) => ({ status: 200, body }),
    (error: unknown) => {
      if (error instanceof Refused) return { status: error.status, body: error.answer };
      throw error;
    },
  );
}

function readChecks(body: JsonObject | null): JsonObject {
  const parts = body?.['parts'] ?? body?.['checks'] ?? body;
  return typeof parts === 'object' && parts !== null && !Array.isArray(parts) ? parts : {};
}
