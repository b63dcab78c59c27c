import { AsyncResource } from 'node:async_hooks';
import { runApart } from './run-apart.js';
import type { EpochMs, Milliseconds } from './units.js';

/** Cancels a timer. Calling it twice, or after the timer fired, does nothing. */
export type CancelTimer = () => void;

/**
 * The only source of time, so that rules can be tested with a fake clock. Injected by type (abstract class = DI token).
 * `now` is wall time and may jump; intervals and deadlines are measured on `monotonic`.
 */
export abstract class Clock {
  /** Wall clock, epoch ms. */
  abstract now(): EpochMs;
  /** Milliseconds since an arbitrary start; never goes back. */
  abstract monotonic(): Milliseconds;
  /** Runs `fire` once after `delayMs`. The timer never keeps the process alive. */
  abstract after(delayMs: Milliseconds, fire: () => void): CancelTimer;

  /** Resolves after `delayMs`, or rejects with the signal's reason when aborted first. */
  sleep(delayMs: Milliseconds, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const stop = () => {
        cancel();
        reject(signal?.reason);
      };
      const cancel = this.after(delayMs, () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      });
      signal?.addEventListener('abort', stop, { once: true });
    });
  }
}

const { hrtime } = process;

/** A call reads the clock fifty times; `performance.now()` takes two function calls more to check its receiver. */
function monotonicMs(): Milliseconds {
  const time = hrtime();
  return time[0] * 1_000 + time[1] / 1_000_000;
}

/** Longest delay Node's timers accept; longer ones fire at once there. */
const MAX_TIMER_MS = 2_147_483_647;
/** Timers of at least this delay share the timers of a wheel, and fire up to one turn of it late. */
const WHEEL_FROM_MS = 200;
const TURN_MS = 10;

/** The real clock. */
export class SystemClock extends Clock {
  override now(): EpochMs {
    return Date.now();
  }

  override readonly monotonic: () => Milliseconds = monotonicMs;

  override after(delayMs: Milliseconds, fire: () => void): CancelTimer {
    if (delayMs >= WHEEL_FROM_MS && delayMs <= MAX_TIMER_MS) return wheel.add(delayMs, fire);
    // Node keeps a list per duration: with fractions of milliseconds every call would get its own list.
    const timer = setTimeout(fire, Math.ceil(Math.min(Math.max(0, delayMs), MAX_TIMER_MS)));
    timer.unref();
    return () => clearTimeout(timer);
  }
}

/** A timer of the wheel, linked with the others that fire in the same turn. */
interface WheelTimer {
  previous: WheelTimer;
  next: WheelTimer;
  fire: (() => void) | undefined;
}

/** The first of a ring, which does not fire. */
function newRing(): WheelTimer {
  const head: Partial<WheelTimer> = { fire: undefined };
  head.previous = head.next = head as WheelTimer;
  return head as WheelTimer;
}

/**
 * Timers of calls. Nearly all are cancelled long before they fire, and a timer of Node for each costs more than most steps of a call: those
 * that are due within the same ten milliseconds share one.
 */
class TimerWheel {
  /** The first timer of each ring is its head, which does not fire; a ring without others is removed. By the turn in which it fires. */
  readonly #rings = new Map<number, WheelTimer>();
  #nextTurn = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  /** Not in the context of the call that happened to set the timer: its trace is not the others'. */
  readonly #fire = AsyncResource.bind(() => this.#fireDue());

  add(delayMs: Milliseconds, fire: () => void): CancelTimer {
    const turn = Math.ceil((monotonicMs() + delayMs) / TURN_MS);
    let head = this.#rings.get(turn);
    if (!head) this.#rings.set(turn, (head = newRing()));
    const timer: WheelTimer = { previous: head.previous, next: head, fire };
    timer.previous.next = head.previous = timer;
    if (turn < this.#nextTurn) this.#setTimer(turn);
    return () => {
      if (!timer.fire) return;
      const { previous, next } = timer;
      timer.fire = undefined;
      // A cancelled timer must not keep the others in memory.
      timer.previous = timer.next = timer;
      previous.next = next;
      next.previous = previous;
      if (previous === next && !next.fire) this.#rings.delete(turn);
    };
  }

  #setTimer(turn: number): void {
    clearTimeout(this.#timer);
    this.#nextTurn = turn;
    this.#timer = setTimeout(this.#fire, Math.max(1, Math.ceil(turn * TURN_MS - monotonicMs())));
    this.#timer.unref();
  }

  #fireDue(): void {
    const now = monotonicMs() / TURN_MS;
    const due: number[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (const turn of this.#rings.keys()) {
      if (turn <= now) due.push(turn);
      else if (turn < next) next = turn;
    }
    this.#nextTurn = Number.POSITIVE_INFINITY;
    if (next < Number.POSITIVE_INFINITY) this.#setTimer(next);
    for (const turn of due.toSorted((a, b) => a - b)) {
      const head = this.#rings.get(turn);
      this.#rings.delete(turn);
      for (let timer = head?.next; timer?.fire; timer = head?.next) fireTimer(timer);
    }
  }
}

function fireTimer(timer: WheelTimer): void {
  const { fire, previous, next } = timer;
  timer.fire = undefined;
  previous.next = next;
  next.previous = previous;
  if (fire) runApart(fire);
}

const wheel = new TimerWheel();
