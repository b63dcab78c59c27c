import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { RecordedPolicy, UnknownFact, type PastCall } from '@toolfleet/engine-adapters';
import type { JsonObject } from '@toolfleet/contracts';
import type { PastDefinitions } from './past-definitions.js';
import type { PastFacts, PastReading } from './past-calls.js';
import { hasReached } from './reached.js';
import { HOW_FAR, PASSED, RuleTally, type Verdict } from './rule-tally.js';

const SHARED = [
  'tenant_id',
  'user_id',
  'via',
  'roles',
  'tool',
  'toolset',
  'origin',
  'door',
  'has_parent',
  'code',
  'transport',
] as const;
const OF_ONE = [...SHARED, 'parent_call_id', 'ended_at', 'duration_ms'] as const;
type Facts = PastFacts<(typeof SHARED)[number]> & Partial<PastFacts<(typeof OF_ONE)[number]>>;

/** Facts that are read call by call, where a rule asks for one of them. */
const OF_CALLS: ReadonlySet<string> = new Set(['time', 'call.parent', 'arguments']);

/** Arguments of a call as its tool got them; undefined if they are not kept whole or may not be read. */
export type ReadPastArguments = (call: Facts, definition: RegisteredTool) => Promise<JsonObject | undefined>;

interface PolicyTest {
  policy: RecordedPolicy;
  definitions: PastDefinitions;
  /** Absent: kept arguments are not read. */
  readArguments?: ReadPastArguments | undefined;
}

/** Thrown to begin anew, call by call. */
class NeedsEach extends Error {}

/**
 * What a policy would have decided on recorded calls. Calls with the same facts are decided once, unless a rule asks for the time, the
 * arguments or the parent of a call.
 * @param begin begins to read the calls
 */
export async function testPolicy(
  test: PolicyTest,
  begin: () => PastReading,
): Promise<{ reading: PastReading; tally: RuleTally }> {
  try {
    return await decideAll(test, begin(), false);
  } catch (error) {
    if (!(error instanceof NeedsEach)) throw error;
    return decideAll(test, begin(), true);
  }
}

async function decideAll(test: PolicyTest, reading: PastReading, each: boolean) {
  const tally = new RuleTally();
  for await (const facts of reading.rows<(typeof OF_ONE)[number]>(each ? OF_ONE : (SHARED as never), { each })) {
    const isReached = hasReached('policy', facts);
    if (isReached === false) {
      tally.skip(facts);
      continue;
    }
    const verdict: Verdict =
      isReached === undefined ? { is: 'undecidable', fact: HOW_FAR } : await decide(test, facts, each);
    tally.add(facts, verdict, facts.code === 'POLICY_DENIED' || facts.code === 'APPROVAL_REQUIRED');
  }
  return { reading, tally };
}

async function decide({ policy, definitions, readArguments }: PolicyTest, facts: Facts, each: boolean) {
  const found = definitions.of(facts);
  const definition = found instanceof Promise ? await found : found;
  const call = toPastCall(facts, definition);
  for (;;) {
    try {
      const { deny, ask = [] } = policy.judge(call);
      if (deny.length > 0) return { is: 'refused', reasons: deny } as const;
      return ask.length > 0 ? ({ is: 'asked', reasons: ask } as const) : PASSED;
    } catch (error) {
      if (!(error instanceof UnknownFact)) throw error;
      const { fact } = error;
      const isReadable = OF_CALLS.has(fact) && (fact !== 'arguments' || readArguments !== undefined);
      if (isReadable && !each) throw new NeedsEach();
      const args = fact === 'arguments' && definition && (await readArguments?.(facts, definition));
      if (!args) return { is: 'undecidable', fact } as const;
      call.arguments = args;
    }
  }
}

function toPastCall(facts: Facts, definition: RegisteredTool | undefined): PastCall {
  const { ended_at: endedAt, duration_ms: durationMs = 0, parent_call_id: parent } = facts;
  return {
    tool: facts.tool,
    tenantId: facts.tenant_id,
    // An internal caller may act for another user, whom the record names.
    userId: facts.origin === 'internal' ? undefined : facts.user_id,
    via: facts.via ?? undefined,
    roles: facts.roles ?? undefined,
    origin: facts.origin,
    door: facts.door,
    toolset: facts.toolset?.split('@')[0] ?? null,
    parent: facts.has_parent ? { id: parent ?? undefined } : undefined,
    definition,
    startedAt: endedAt === undefined ? undefined : endedAt - durationMs,
  };
}
