import {
  ToolError,
  toUsd,
  type Approval,
  type Json,
  type JsonObject,
  type PlannedEffect,
  type ProgramPlan,
} from '@toolfleet/contracts';
import type { Call } from '@toolfleet/engine';
import { canonicalJson, sha256Hex } from '@toolfleet/bounded-schema';

/** Meets the calls of a program in the order in which it asks for them. */
export interface EffectMeeting {
  /** Calls with effects are only quoted. */
  readonly dry: boolean;
  /**
   * @param isEffect whether the call has effects or needs an approval
   * @returns the approval of people for it. @throws ToolError OUTSIDE_PLAN
   */
  meet(n: number, effect: PlannedEffect, isEffect: boolean): Promise<Approval | undefined>;
  /** A question has its answer. */
  settled(n: number): void;
}

/** Collects the effects that a program would have. */
export class PlanDraft implements EffectMeeting {
  readonly dry = true;
  readonly #effects = new Map<number, PlannedEffect>();

  async meet(n: number, effect: PlannedEffect, isEffect: boolean): Promise<undefined> {
    if (isEffect) this.#effects.set(n, effect);
  }

  settled(): void {}

  /** The effects in the order of the program, bound to its arguments. */
  end(call: Pick<Call, 'arguments'>): ProgramPlan {
    const effects = [...this.#effects].toSorted(([one], [other]) => one - other).map(([, effect]) => effect);
    const { code, inputs = null, tools = null } = call.arguments;
    const ordered = effects.map(({ tool, revision, arguments: args }) => ({ tool, revision, arguments: args }));
    const digest = sha256Hex(canonicalJson({ code: code as Json, inputs, tools, effects: ordered }));
    return { digest, effects, reached: [], given: [] };
  }
}

/** Lets a program have the effects of its plan, each once and in their order, and no other. */
export class PlanCheck implements EffectMeeting {
  readonly dry = false;
  readonly #reached: Map<number, number>;
  readonly #given: Map<number, Approval>;
  readonly #identities: readonly string[];
  /** Numbers that were met or have their answer; all below `#passed` are. */
  readonly #seen = new Set<number>();
  #passed = 0;
  #turns: { n: number; begin: () => void }[] = [];

  constructor(private readonly plan: ProgramPlan) {
    this.#reached = new Map(plan.reached);
    this.#given = new Map(plan.given);
    this.#identities = plan.effects.map(identityOf);
  }

  /** Effects without an approval yet. */
  get open(): { at: number; effect: PlannedEffect }[] {
    const asked = this.plan.effects.map((effect, at) => ({ at, effect }));
    return asked.filter(({ at, effect }) => effect.questions.length > 0 && !this.#given.has(at));
  }

  /** People approved the effect at this place. */
  give(at: number, approval: Approval): void {
    this.#given.set(at, approval);
  }

  async meet(n: number, effect: PlannedEffect, isEffect: boolean): Promise<Approval | undefined> {
    if (!isEffect) {
      this.settled(n);
      return undefined;
    }
    await this.#turn(n);
    const at = this.#reached.get(n) ?? this.#find(effect);
    if (at < 0) throw this.#outside(n, effect);
    this.#reached.set(n, at);
    this.settled(n);
    return this.#given.get(at);
  }

  settled(n: number): void {
    this.#seen.add(n);
    while (this.#seen.delete(this.#passed + 1)) this.#passed += 1;
    const due = this.#turns.filter((turn) => turn.n <= this.#passed + 1);
    this.#turns = this.#turns.filter((turn) => turn.n > this.#passed + 1);
    for (const { begin } of due) begin();
  }

  /** The plan, as far as it was reached. */
  get state(): ProgramPlan {
    return { ...this.plan, reached: [...this.#reached], given: [...this.#given] };
  }

  /** Calls of a `gather` are checked side by side: waits until the ones before it have been met. */
  #turn(n: number): Promise<void> {
    if (n <= this.#passed + 1) return Promise.resolve();
    return new Promise((begin) => this.#turns.push({ n, begin }));
  }

  /** The place of the next effect like this one after those that were reached; -1: there is none. */
  #find(effect: PlannedEffect): number {
    return this.#identities.indexOf(identityOf(effect), Math.max(-1, ...this.#reached.values()) + 1);
  }

  #outside(n: number, { tool, arguments: args }: PlannedEffect): ToolError {
    const next = this.plan.effects[Math.max(-1, ...this.#reached.values()) + 1];
    return new ToolError('OUTSIDE_PLAN', {
      message: `The program asked for an effect of '${tool}' that its plan does not have at this place, and was stopped before it`,
      details: {
        n,
        got: { tool, arguments: args },
        planned: next ? { tool: next.tool, arguments: next.arguments } : null,
        plan: this.plan.digest,
      },
    });
  }
}

/** A plan as callers and deciders see it. */
export function showPlan({ digest, effects }: Pick<ProgramPlan, 'digest' | 'effects'>): JsonObject {
  return {
    digest,
    effects: effects.map((effect) => showEffect(effect)),
    max_cost_usd: toUsd(effects.reduce((sum, { microUsd }) => sum + microUsd, 0)),
  };
}

/** A call with effects as people see it. */
export function showEffect({
  tool,
  arguments: args,
  microUsd,
  questions,
}: Pick<PlannedEffect, 'tool' | 'arguments' | 'microUsd' | 'questions'>): JsonObject {
  const shown: JsonObject = { tool, arguments: args, max_cost_usd: toUsd(microUsd) };
  if (questions.length > 0) shown.questions = [...questions];
  return shown;
}

const identityOf = ({ tool, revision, arguments: args }: PlannedEffect): string =>
  canonicalJson({ tool, revision, arguments: args });
