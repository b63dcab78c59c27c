import type { JsonObject } from '@toolfleet/contracts';
import type { CallFact } from '@toolfleet/contracts/records';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { RecordedPolicy, UnknownFact, type PastCall } from '@toolfleet/engine-adapters';
import type { PastFacts, PastReading } from './past-calls.js';
import type { PastDefinitions } from './past-definitions.js';
import { PASSED, RuleTally, type Verdict } from './rule-tally.js';

/** Facts that every test needs. */
const ALWAYS = ['tool', 'code', 'transport'] as const satisfies CallFact[];
type Facts = PastFacts<(typeof ALWAYS)[number]> & Partial<PastFacts<CallFact>>;

/** The recorded facts that a fact of the policy comes from, and whether calls differ by it, so that each has to be decided alone. */
const SOURCES: Readonly<Record<string, { facts: readonly CallFact[]; isOfOne?: true }>> = {
  'user.tenant': { facts: ['tenant_id'] },
  // An internal caller may act for another user, whom the record names.
  'user.id': { facts: ['user_id', 'origin'] },
  'user.via': { facts: ['via'] },
  'user.roles': { facts: ['roles'] },
  origin: { facts: ['origin'] },
  entry_point: { facts: ['entry_point'] },
  call: { facts: ['toolset', 'has_parent'] },
  'call.parent': { facts: ['toolset', 'has_parent', 'parent_call_id'], isOfOne: true },
  definition: { facts: ['tenant_id'] },
  arguments: { facts: ['tenant_id', 'toolset'], isOfOne: true },
  time: { facts: ['ended_at', 'duration_ms'], isOfOne: true },
};

/** Arguments of a call as its tool got them; undefined if they are not kept whole or may not be read. */
export type ReadPastArguments = (
  call: { call_id: string; tenant_id: string; toolset: string | null },
  definition: RegisteredTool,
) => Promise<JsonObject | undefined>;

interface PolicyTest {
  policy: RecordedPolicy;
  definitions: PastDefinitions;
  /** Absent: kept arguments are not read. */
  readArguments?: ReadPastArguments | undefined;
}

/** A rule asks for a fact that this reading does not have. */
class FactNeeded extends Error {
  constructor(readonly fact: string) {
    super(fact);
  }
}

/**
 * Decisions of a policy on recorded calls. It begins with few facts, and anew with those that a rule asks for: calls with the
 * same facts are decided once. These are few unless a rule asks for the time, the arguments or the parent of a call.
 * @param begin begins to read the calls
 */
export async function testPolicy(
  test: PolicyTest,
  begin: () => PastReading,
): Promise<{ reading: PastReading; tally: RuleTally }> {
  const facts = new Set<CallFact>(ALWAYS);
  for (let each = false; ;) {
    try {
      return await decideAll(test, begin(), facts, each);
    } catch (error) {
      if (!(error instanceof FactNeeded)) throw error;
      const { facts: more, isOfOne = false } = SOURCES[error.fact]!;
      for (const fact of more) facts.add(fact);
      each ||= isOfOne;
    }
  }
}

async function decideAll(test: PolicyTest, reading: PastReading, wanted: ReadonlySet<CallFact>, each: boolean) {
  const tally = new RuleTally();
  for await (const row of reading.rows([...wanted], { each })) {
    const facts: Facts = row;
    if (!tally.cameTo('policy', facts)) continue;
    const verdict = await decide(test, facts, (fact) => needs(fact, wanted, each));
    tally.add(facts, verdict, facts.code === 'POLICY_DENIED' || facts.code === 'APPROVAL_REQUIRED');
  }
  return { reading, tally };
}

/** @throws FactNeeded unless the reading has the source of a fact */
function needs(fact: string, wanted: ReadonlySet<CallFact>, each: boolean): void {
  const source = SOURCES[fact];
  if (source && (source.facts.some((one) => !wanted.has(one)) || (source.isOfOne === true && !each)))
    throw new FactNeeded(fact);
}

async function decide(test: PolicyTest, facts: Facts, requireFact: (fact: string) => void): Promise<Verdict> {
  const call = toPastCall(facts);
  for (;;) {
    try {
      const { deny, ask = [] } = test.policy.judge(call);
      if (deny.length > 0) return { is: 'refused', reasons: deny };
      return ask.length > 0 ? { is: 'asked', reasons: ask } : PASSED;
    } catch (error) {
      if (!(error instanceof UnknownFact)) throw error;
      const { fact } = error;
      if (fact === 'arguments' && !test.readArguments) return { is: 'undecidable', fact };
      requireFact(fact);
      if (!(await complete(test, call, facts, fact))) return { is: 'undecidable', fact };
    }
  }
}

/** Adds a fact that is not in the row of a call. @returns false if it is not known */
async function complete(test: PolicyTest, call: PastCall, facts: Facts, fact: string): Promise<boolean> {
  if (fact !== 'definition' && fact !== 'arguments') return false;
  const { tenant_id = '', toolset = null, tool, call_id } = facts;
  call.definition ??= await test.definitions.of({ tenant_id, tool });
  if (fact === 'definition' || !call.definition) return call.definition !== undefined;
  call.arguments = await test.readArguments?.({ call_id, tenant_id, toolset }, call.definition);
  return call.arguments !== undefined;
}

function toPastCall(facts: Facts): PastCall {
  const { ended_at: endedAt, duration_ms: durationMs = 0, origin, toolset, has_parent: hasParent } = facts;
  const isCallKnown = toolset !== undefined && hasParent !== undefined;
  return {
    tool: facts.tool,
    'user.tenant': facts.tenant_id,
    'user.id': origin === undefined || origin === 'internal' ? undefined : facts.user_id,
    'user.via': facts.via ?? undefined,
    'user.roles': facts.roles ?? undefined,
    origin,
    entry_point: facts.entry_point,
    call: isCallKnown ? { toolset: toolset?.split('@')[0], hasParent } : undefined,
    'call.parent': facts.parent_call_id ?? undefined,
    time: endedAt === undefined ? undefined : endedAt - durationMs,
  };
}
