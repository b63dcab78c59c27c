import { toolRate } from '@toolfleet/engine';
import { takeToken } from '@toolfleet/resilience';
import type { PastDefinitions } from './past-definitions.js';
import type { PastFacts, PastReading } from './past-calls.js';
import { PASSED, RuleTally, type Verdict } from './rule-tally.js';

/** Calls that are held in memory to be put in order. */
export const MAX_ORDERED = 300_000;

const FACTS = ['tenant_id', 'user_id', 'tool', 'code', 'transport', 'ended_at', 'duration_ms', 'admit_ms'] as const;
type Facts = PastFacts<(typeof FACTS)[number]>;

/**
 * The effect of a rate limit of a tool: each call takes a token of its tenant's bucket at the time at which it came to the limit.
 * The buckets are full at the start.
 */
export async function testRateLimit(
  rule: { tool: string; per_minute: number },
  definitions: PastDefinitions,
  reading: PastReading,
): Promise<RuleTally> {
  const tally = new RuleTally();
  const calls: { at: number; facts: Facts }[] = [];
  for await (const facts of reading.rows(FACTS, { each: true, maxRows: MAX_ORDERED })) {
    if (tally.cameTo('rate_limit', facts))
      calls.push({ at: facts.ended_at - facts.duration_ms + facts.admit_ms, facts });
  }
  calls.sort((one, other) => one.at - other.at);
  const rate = toolRate({ rate_limit: rule.per_minute });
  const refusal: Verdict = { is: 'refused', reasons: [`more than ${rule.per_minute} calls a minute of a tenant`] };
  const buckets = new Map<string, number>();
  for (const { at, facts } of calls) {
    const wasRefused = facts.code === 'RATE_LIMITED';
    if (!rate) {
      tally.add(facts, PASSED, wasRefused);
      continue;
    }
    const { decision, state } = takeToken(buckets.get(facts.tenant_id), rate, at);
    buckets.set(facts.tenant_id, state);
    const found = definitions.of(facts);
    const definition = found instanceof Promise ? await found : found;
    // A call that waits for its token is refused at its deadline.
    const waits = definition?.rate_limit_mode === 'wait';
    const refused: Verdict = waits ? { is: 'undecidable', fact: 'deadline of a call that waits' } : refusal;
    tally.add(facts, decision.allowed ? PASSED : refused, wasRefused);
  }
  return tally;
}
