/** Calls of fault tests over both doors, each judged by its answer. */
import { isToolError } from '@toolfleet/contracts';
import type { NatsClient } from '@toolfleet/transport';
import type { TestFleet } from './test-fleet.js';
import type { AskOne, Verdict } from './steady-load.js';

/** Codes a caller may be told while something the fleet leans on is away: clear, and none of them our own fault. */
const CLEAR = new Set([
  'ATTEMPT_TIMED_OUT',
  'BREAKER_OPEN',
  'BUDGET_UNAVAILABLE',
  'CALL_IN_PROGRESS',
  'DEADLINE_EXCEEDED',
  'EXECUTOR_UNAVAILABLE',
  'OUTCOME_UNKNOWN',
  'QUEUE_FULL',
  'SERVICE_UNAVAILABLE',
  'WORKER_LOST',
]);

/** A failure as a verdict; one without a clear code says so. */
export const verdictOf = (code: unknown, detail: string): string =>
  CLEAR.has(String(code)) ? String(code) : `UNCLEAR ${String(code)} ${detail.slice(0, 300)}`;

/** Verdicts of failures that name no clear code: there must be none. */
export const unclear = (failures: readonly string[]): string[] =>
  failures.filter((failure) => failure.startsWith('UNCLEAR'));

/** A sum no cache knows, over HTTP, by turns at every gateway. */
export const sumOverHttp =
  (fleet: TestFleet): AskOne =>
  async (number) => {
    const gateways = fleet.running.get('gateway')!.length;
    const answer = await fleet.call('calculator', { expression: `${number}+0.5` }, { gateway: number % gateways });
    if (answer.status === 200 && answer.body.output?.result === number + 0.5) return undefined;
    return verdictOf(answer.body?.code ?? answer.body?.metadata?.code, answer.text);
  };

/** The same over NATS, as an agent does it. */
export const sumOverNats =
  (nats: NatsClient, key: string): AskOne =>
  (number) =>
    judged(async () => {
      const body = { name: 'calculator', arguments: { expression: `${number}+0.25` } };
      const reply = await nats.request<{ output?: { result?: number }; metadata?: { code?: string } }>(
        'tool.call',
        body,
        {
          timeoutMs: 10_000,
          headers: { Authorization: `Bearer ${key}` },
        },
      );
      if (reply.output?.result === number + 0.25) return undefined;
      return verdictOf(reply.metadata?.code, JSON.stringify(reply));
    });

/** A call with an effect that must never begin twice; `told` keeps what the caller was told about each text. */
export const noteOverHttp =
  (fleet: TestFleet, tool: string, told: Map<string, Verdict>): AskOne =>
  async (number) => {
    const text = `note-${number}`;
    const gateways = fleet.running.get('gateway')!.length;
    const { status, body, text: raw } = await fleet.call(tool, { text, delay_ms: 20 }, { gateway: number % gateways });
    const isRight = status === 200 && body.success === true;
    const verdict = isRight ? undefined : verdictOf(status === 200 ? body.metadata?.code : body?.code, raw);
    told.set(text, verdict);
    return verdict;
  };

async function judged(ask: () => Promise<Verdict>): Promise<Verdict> {
  try {
    return await ask();
  } catch (error) {
    return isToolError(error) ? verdictOf(error.code, error.message) : verdictOf(undefined, String(error));
  }
}
