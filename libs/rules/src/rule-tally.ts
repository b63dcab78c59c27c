import type { RuleTestResult } from '@toolfleet/contracts/resources';
import { hasReached, type Check, type Refused } from './reached.js';

/** Verdict of a rule on a past call. */
export type Verdict =
  | { is: 'passed' }
  /** `asked`: it would wait for a person. */
  | { is: 'refused' | 'asked'; reasons: readonly string[] }
  /** The rule depends on a fact that is not known. */
  | { is: 'undecidable'; fact: string };

export const PASSED: Verdict = { is: 'passed' };

/** The fact that is missing where the record does not say which checks a call came to. */
export const HOW_FAR = 'how far the call got';

interface TalliedCall {
  call_id: string;
  tool: string;
  tenant_id?: string;
  user_id?: string;
  /** How many calls it stands for. */
  calls: number;
}

type Example = RuleTestResult['examples'][number];
const SHOWN = ['refused', 'asked', 'admitted', 'undecidable'] as const satisfies Example['verdict'][];
const MAX_EXAMPLES = 20;
const MAX_SHOWN_REASONS = 20;
/** Different reasons that are counted; messages of rules may name values. */
const MAX_REASONS = 2_000;
const OTHERS = 'others';

/** Adds up verdicts. */
export class RuleTally {
  #counts = { calls: 0, not_reached: 0, refused: 0, still_refused: 0, admitted: 0, asked: 0, undecidable: 0 };
  readonly #reasons = new Map<string, number>();
  readonly #unrecorded = new Map<string, number>();
  readonly #examples = new Map<Example['verdict'], Example[]>(SHOWN.map((verdict) => [verdict, []]));

  /** Calls that did not come to the rule. */
  skip({ calls }: Pick<TalliedCall, 'calls'>): void {
    this.#counts.not_reached += calls;
  }

  /** Whether calls came to a check. Those that did not, or of which the record does not say it, are counted here. */
  cameTo(check: Check, call: TalliedCall & Refused): boolean {
    const isReached = hasReached(check, call);
    if (isReached === undefined) this.add(call, { is: 'undecidable', fact: HOW_FAR }, false);
    else if (!isReached) this.skip(call);
    return isReached === true;
  }

  /** @param wasRefused a rule of this kind refused the calls then */
  add(call: TalliedCall, verdict: Verdict, wasRefused: boolean): void {
    const { calls } = call;
    this.#counts.calls += calls;
    switch (verdict.is) {
      case 'passed':
        if (wasRefused) this.#count('admitted', call);
        return;
      case 'undecidable':
        count(this.#unrecorded, verdict.fact, calls);
        this.#count('undecidable', call, verdict.fact);
        return;
      default:
        for (const reason of verdict.reasons) count(this.#reasons, reason, calls);
        if (wasRefused) this.#counts.still_refused += calls;
        else this.#count(verdict.is, call, verdict.reasons[0]);
    }
  }

  #count(
    verdict: Example['verdict'],
    { calls, call_id, tenant_id, tool, user_id }: TalliedCall,
    reason?: string,
  ): void {
    this.#counts[verdict] += calls;
    const examples = this.#examples.get(verdict)!;
    if (examples.length >= MAX_EXAMPLES) return;
    examples.push({
      call_id,
      tool,
      tenant_id,
      user_id,
      verdict,
      reason,
    });
  }

  get result() {
    return {
      ...this.#counts,
      reasons: mostFrequent(this.#reasons).map(([reason, calls]) => ({ reason, calls })),
      unrecorded: mostFrequent(this.#unrecorded).map(([fact, calls]) => ({ fact, calls })),
      examples: SHOWN.flatMap((verdict) => this.#examples.get(verdict)!).slice(0, MAX_EXAMPLES),
    };
  }
}

function count(counts: Map<string, number>, name: string, calls: number): void {
  const known = counts.has(name) || counts.size < MAX_REASONS ? name : OTHERS;
  counts.set(known, (counts.get(known) ?? 0) + calls);
}

const mostFrequent = (counts: ReadonlyMap<string, number>): [string, number][] =>
  [...counts]
    .toSorted(([name, one], [other, times]) => times - one || (name < other ? -1 : 1))
    .slice(0, MAX_SHOWN_REASONS);
