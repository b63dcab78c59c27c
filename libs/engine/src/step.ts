import type { CallResult } from '@toolfleet/contracts';
import type { Call } from './call.js';

/** The rest of the steps. A step may call it once, several times or not at all. */
export type Next<C = Call> = (call: C) => Promise<CallResult>;

/**
 * One thing that happens on every call: passes the call on, answers it, refuses it, repeats it or looks at its result. `In` is what
 * the step has to know of the call, `Out` what the steps inside know: a step that needs the tool cannot stand before the one that
 * finds it.
 */
export interface Step<In = Call, Out = In> {
  /** As the diagram in docs/call-lifecycle.md shows it. */
  readonly name: string;
  /** The step around the steps inside. Absent from a step that the settings leave nothing to do; calls do not meet it. */
  readonly around?: (next: Next<Out>) => Next<In>;
}

/** A step of this name. */
export function step<In = Call, Out = In>(name: string, around?: Step<In, Out>['around']): Step<In, Out> {
  return { name, around };
}

/** Steps in their order, outermost first. */
export class Steps<In, Out> {
  private constructor(
    readonly names: readonly string[],
    private readonly join: (end: Next<Out>) => Next<In>,
  ) {}

  /** No step. */
  static of<C>(): Steps<C, C> {
    return new Steps<C, C>([], (end) => end);
  }

  /** These steps with another one inside. */
  add<Inner>({ name, around }: Step<Out, Inner>): Steps<In, Inner> {
    return new Steps<In, Inner>([...this.names, name], (end) =>
      this.join(around ? around(end) : (end as unknown as Next<Out>)),
    );
  }

  /** All steps around `end` as one function. */
  around(end: Next<Out>): Next<In> {
    return this.join(end);
  }
}
