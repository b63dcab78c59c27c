import { toUsd, type EpochMs, type MicroUsd } from '@toolfleet/contracts';
import type { BudgetPeriod } from '@toolfleet/contracts/budget';
import { reservedMicroUsd } from '@toolfleet/engine';
import {
  checkLimit,
  noCounters,
  periodName,
  type Counters,
  type Refusal,
  type ScopeLimit,
} from '@toolfleet/resilience';
import type { PastDefinitions } from './past-definitions.js';
import type { PastFacts, PastReading } from './past-calls.js';
import { MAX_ORDERED } from './rate-limit-test.js';
import { hasReached } from './reached.js';
import { PASSED, RuleTally, type Verdict } from './rule-tally.js';

const FACTS = [
  'tenant_id',
  'user_id',
  'tool',
  'code',
  'transport',
  'ended_at',
  'duration_ms',
  'admit_ms',
  'micro_usd',
  'tokens',
] as const;
type Facts = PastFacts<(typeof FACTS)[number]>;

interface SimulatedCall {
  facts: Facts;
  /** Its reservation by today's definition; undefined for a tool that is gone. */
  reserved: MicroUsd | undefined;
  /** Its held amount; undefined when it was refused. */
  held?: MicroUsd;
}

/** A call at its start, or at its end. */
interface Moment {
  at: EpochMs;
  call: SimulatedCall;
  isEnd: boolean;
}

/**
 * The effect of a budget: each call reserves its maximum cost at its start, and is charged its cost at its end. A
 * call that is refused costs nothing.
 * @param reading calls since the start of the period in which `from` is
 * @param from decisions on earlier calls are not counted
 */
export async function testBudget(
  { limit, period, from }: { limit: ScopeLimit; period: BudgetPeriod; from: EpochMs },
  definitions: PastDefinitions,
  reading: PastReading,
): Promise<RuleTally> {
  const tally = new RuleTally();
  const moments: Moment[] = [];
  for await (const facts of reading.rows(FACTS, { each: true, maxRows: MAX_ORDERED })) {
    const isCounted = facts.ended_at >= from;
    if (!(isCounted ? tally.cameTo('budget', facts) : hasReached('budget', facts))) continue;
    const found = definitions.of(facts);
    const definition = found instanceof Promise ? await found : found;
    const call: SimulatedCall = { facts, reserved: definition && reservedMicroUsd(definition) };
    const startedAt = facts.ended_at - facts.duration_ms + facts.admit_ms;
    moments.push({ at: startedAt, call, isEnd: false }, { at: facts.ended_at, call, isEnd: true });
  }
  moments.sort((one, other) => one.at - other.at || Number(one.isEnd) - Number(other.isEnd));
  const periods = new Map<string, Counters>();
  for (const { at, call, isEnd } of moments) {
    const name = periodName(period, at);
    const counters = periods.get(name) ?? noCounters();
    periods.set(name, counters);
    if (isEnd) settle(counters, call);
    else {
      const verdict = reserve(limit, counters, call);
      const wasRefused = isBudgetCode(call.facts.code);
      if (call.facts.ended_at >= from) tally.add(call.facts, verdict, wasRefused);
    }
  }
  return tally;
}

/** Decides by the rule of the budget service, and holds the reservation. */
function reserve(limit: ScopeLimit, counters: Counters, call: SimulatedCall): Verdict {
  const { facts, reserved } = call;
  const amount = { microUsd: reserved ?? facts.micro_usd, tokens: 0 };
  const refusal = checkLimit(limit, counters, amount);
  if (refusal) return { is: 'refused', reasons: [describe(refusal)] };
  // The cost of a call that was refused then is unknown; nothing is counted for it.
  call.held = isBudgetCode(facts.code) ? 0 : amount.microUsd;
  counters.heldMicroUsd += call.held;
  return reserved === undefined && limit.microUsd !== null
    ? { is: 'undecidable', fact: 'price of a tool that is gone' }
    : PASSED;
}

function settle(counters: Counters, { facts, held }: SimulatedCall): void {
  if (held === undefined) return;
  counters.heldMicroUsd -= held;
  counters.spentMicroUsd += facts.micro_usd;
  counters.spentTokens += facts.tokens;
}

const isBudgetCode = (code: string | null): boolean => code === 'BUDGET_EXCEEDED' || code === 'TOKEN_LIMIT_EXCEEDED';

const describe = ({ code, limit }: Refusal): string =>
  code === 'BUDGET_EXCEEDED' ? `more than ${toUsd(limit)} USD` : `more than ${limit} tokens`;
