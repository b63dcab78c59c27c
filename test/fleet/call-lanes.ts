/** Calls of fault tests over HTTP and NATS, each judged by its answer. */
import { isToolError } from '@toolfleet/contracts';
import type { NatsClient } from '@toolfleet/transport';
import type { AskOne, Verdict } from './steady-load.js';
import type { Answer, TestFleet } from './test-fleet.js';

/** Codes a caller may get while a dependency is unavailable: clear, and never INTERNAL. */
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

/** A failure as a verdict, marked when it has no clear code. */
export const verdictOf = (code: unknown, detail: string): string =>
  CLEAR.has(String(code)) ? String(code) : `UNCLEAR ${String(code)} ${detail.slice(0, 300)}`;

/** Verdicts of failures that name no clear code: there must be none. */
export const unclear = (failures: readonly string[]): string[] =>
  failures.filter((failure) => failure.startsWith('UNCLEAR'));

/**
 * A call by turns at every gateway, as a load balancer places it: connections are not kept, because a gateway that ends would
 * leave them half open, and one that refuses the connection has not been asked.
 */
async function balanced(fleet: TestFleet, number: number, tool: string, args: object): Promise<Answer> {
  for (let tries = 0; ; tries += 1) {
    const gateway = (number + tries) % fleet.running.get('gateway')!.length;
    try {
      return await fleet.call(tool, args, { gateway, headers: { connection: 'close' } });
    } catch (error) {
      const { code } = (error as Error & { cause?: { code?: string } }).cause ?? {};
      if (code !== 'ECONNREFUSED' || tries === MOST_TRIES) throw error;
    }
  }
}

const MOST_TRIES = 3;

/** A sum no cache knows, over HTTP. */
export const sumOverHttp =
  (fleet: TestFleet): AskOne =>
  async (number) => {
    const answer = await balanced(fleet, number, 'calculator', { expression: `${number}+0.5` });
    if (answer.status === 200 && answer.body.output?.result === number + 0.5) return undefined;
    return verdictOf(answer.body?.code ?? answer.body?.metadata?.code, answer.text);
  };

/** The same over NATS, as an agent does it; `subject` is `tool.call` or its tenant's. */
export const sumOverNats =
  (nats: NatsClient, key: string, subject = 'tool.call'): AskOne =>
  (number) =>
    judged(async () => {
      const body = { name: 'calculator', arguments: { expression: `${number}+0.25` } };
      const reply = await nats.request<{ output?: { result?: number }; metadata?: { code?: string } }>(subject, body, {
        timeoutMs: 10_000,
        headers: { Authorization: `Bearer ${key}` },
      });
      if (reply.output?.result === number + 0.25) return undefined;
      return verdictOf(reply.metadata?.code, JSON.stringify(reply));
    });

/** A program, through its queue. */
export const programOverHttp =
  (fleet: TestFleet): AskOne =>
  async (number) => {
    const answer = await balanced(fleet, number, 'execute_python', { code: `result = ${number} * 2` });
    if (answer.status === 200 && answer.body.output?.value === number * 2) return undefined;
    return verdictOf(answer.body?.code ?? answer.body?.metadata?.code, answer.text);
  };

/** An operation of an OpenAPI service that succeeds. */
export const operationOverHttp =
  (fleet: TestFleet, tool: string, args: object): AskOne =>
  async (number) => {
    const answer = await balanced(fleet, number, tool, args);
    if (answer.status === 200 && answer.body.success === true) return undefined;
    return verdictOf(answer.body?.code ?? answer.body?.metadata?.code, answer.text);
  };

/** A call with an effect that must never begin twice; `told` keeps the answer to each text. */
export const noteOverHttp =
  (fleet: TestFleet, tool: string, told: Map<string, Verdict>): AskOne =>
  async (number) => {
    const text = `note-${number}`;
    const { status, body, text: raw } = await balanced(fleet, number, tool, { text, delay_ms: 20 });
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
