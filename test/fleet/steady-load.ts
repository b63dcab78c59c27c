/** Load of a fixed number of lanes for fault tests: each lane asks one call after the other, and every failure is kept. */
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '@toolfleet/testing';

/** After a failure: one that is refused in the process itself would otherwise leave no turn to anybody else. */
const BREATHER_MS = 20;

/** The fault of an answer; undefined when it is right. */
export type Verdict = string | undefined;

/** Makes the call of this number and judges its answer. One that rejects got no answer at all. */
export type AskOne = (number: number) => Promise<Verdict>;

/** Load that runs. */
export interface SteadyLoad {
  /** Right answers so far. */
  readonly right: () => number;
  /** Faults of failed calls so far. */
  readonly failures: readonly string[];
  /** Longest answer so far, ms. */
  readonly slowestMs: () => number;
  /** Waits until so many more calls were answered right. */
  flows(more: number): Promise<void>;
  /** Waits until every call that was under way has ended. */
  settles(): Promise<void>;
  /** Ends the lanes after the calls they are in. */
  stop(): Promise<void>;
}

/** `fetch failed` alone says nothing: its cause does. */
function told(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  return cause === undefined ? String(error) : `${String(error)}: ${String(cause)}`;
}

/** Starts the lanes; each entry of `askers` is asked in `lanesEach` lanes. */
export function steadyLoad(askers: readonly AskOne[], lanesEach: number): SteadyLoad {
  const failures: string[] = [];
  let right = 0;
  let next = 0;
  let slowest = 0;
  let isOpen = true;
  const underWay = new Set<Promise<unknown>>();
  const lanes = askers
    .flatMap((ask) => Array.from({ length: lanesEach }, () => ask))
    .map(async (ask) => {
      while (isOpen) {
        const from = performance.now();
        const asked = ask((next += 1)).catch((error: unknown) => `UNCLEAR no answer: ${told(error)}`);
        underWay.add(asked);
        const verdict = await asked;
        underWay.delete(asked);
        slowest = Math.max(slowest, performance.now() - from);
        if (verdict === undefined) right += 1;
        else {
          failures.push(verdict);
          await sleep(BREATHER_MS);
        }
      }
    });
  return {
    right: () => right,
    failures,
    slowestMs: () => slowest,
    async flows(more) {
      const from = right;
      await eventually(
        `${more} more calls are answered right; failures: ${failures.slice(-5).join(' | ')}`,
        () => right >= from + more,
      );
    },
    async settles() {
      await Promise.all(underWay);
    },
    async stop() {
      isOpen = false;
      await Promise.all(lanes);
    },
  };
}
