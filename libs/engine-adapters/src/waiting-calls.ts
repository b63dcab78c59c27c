import type { Milliseconds } from '@toolfleet/contracts';
import { onAbort, type CancelTimer, type Clock } from '@toolfleet/resilience';

/** How often the first call of a line goes on by itself, because gateways do not announce their settlements. */
const GO_ON_MS: Milliseconds = 50;
/** Each call that has its answer lets so many go on, so that a line empties in a few rounds once nothing holds it. */
const LET_GO = 2;

interface WaitingReserve {
  readonly ticket: number;
  readonly goOn: () => void;
}

/** Calls that wait until others have ended, in the order of their tickets. */
export class WaitingCalls {
  readonly #lines = new Map<string, { waiting: WaitingReserve[]; cancel: CancelTimer }>();
  #tickets = 0;

  constructor(private readonly clock: Clock) {}

  /** A place in a line, kept when it has to wait again. */
  ticket(): number {
    return (this.#tickets += 1);
  }

  /** Whether calls wait in a line. */
  has(line: string): boolean {
    return this.#lines.has(line);
  }

  /** Resolves when the call may go on; rejects with the reason of the signal. */
  wait(line: string, ticket: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const waiting: WaitingReserve = {
        ticket,
        goOn: () => {
          forget();
          resolve();
        },
      };
      const forget = onAbort(signal, () => {
        this.#remove(line, waiting);
        reject(signal.reason);
      });
      this.#insert(line, waiting);
    });
  }

  /** Lets the first calls of a line go on. */
  letGo(line: string, count = LET_GO): void {
    const waiting = this.#lines.get(line)?.waiting;
    if (!waiting) return;
    const first = waiting.splice(0, count);
    if (waiting.length === 0) this.#end(line);
    for (const { goOn } of first) goOn();
  }

  #insert(line: string, waiting: WaitingReserve): void {
    const all = this.#lines.get(line)?.waiting ?? this.#begin(line);
    const later = all.findIndex(({ ticket }) => ticket > waiting.ticket);
    all.splice(later < 0 ? all.length : later, 0, waiting);
  }

  #begin(line: string): WaitingReserve[] {
    const waiting: WaitingReserve[] = [];
    const goOn = (): void => {
      begun.cancel = this.clock.after(GO_ON_MS, goOn);
      this.letGo(line, 1);
    };
    const begun = { waiting, cancel: this.clock.after(GO_ON_MS, goOn) };
    this.#lines.set(line, begun);
    return waiting;
  }

  #remove(line: string, waiting: WaitingReserve): void {
    const all = this.#lines.get(line)?.waiting;
    const place = all?.indexOf(waiting) ?? -1;
    if (!all || place < 0) return;
    all.splice(place, 1);
    if (all.length === 0) this.#end(line);
  }

  #end(line: string): void {
    this.#lines.get(line)?.cancel();
    this.#lines.delete(line);
  }
}
