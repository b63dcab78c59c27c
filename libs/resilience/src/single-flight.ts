import { AbortSource, onAbort } from '@toolfleet/base';
import { InFlightMap } from './in-flight.js';

/** Shared work; its signal is aborted when the last caller has left. */
type Work<T> = (signal: AbortSignal) => Promise<T>;

interface Flight<T> {
  readonly result: Promise<T>;
  readonly abort: AbortSource;
  waiting: number;
}

/**
 * Runs identical concurrent work once. A caller with an aborted signal leaves; the work is cancelled only when the last caller has left,
 * and that caller gets the outcome of the cancelled work.
 */
export class SingleFlight<T> {
  readonly #flights = new InFlightMap<string, Flight<T>>();

  /** Number of flights. */
  get size(): number {
    return this.#flights.size;
  }

  /** True when `join` would share running work. */
  has(key: string): boolean {
    return this.#flights.get(key) !== undefined;
  }

  /**
   * Joins the work of `key` or starts it.
   * @returns the outcome, and whether this caller joined work that another one had started
   * @throws the reason of `signal` when this caller leaves while others stay
   */
  join(key: string, signal: AbortSignal, work: Work<T>): Promise<{ value: T; joined: boolean }> {
    const existing = this.#flights.get(key);
    const flight = existing ?? this.#start(key, work);
    flight.waiting += 1;
    return this.#wait(key, flight, signal, existing !== undefined);
  }

  #start(key: string, work: Work<T>): Flight<T> {
    const abort = new AbortSource();
    const flight: Flight<T> = { abort, waiting: 0, result: work(abort.signal) };
    this.#flights.set(key, flight);
    const land = () => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    };
    flight.result.then(land, land);
    return flight;
  }

  #wait(key: string, flight: Flight<T>, signal: AbortSignal, joined: boolean): Promise<{ value: T; joined: boolean }> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        flight.waiting -= 1;
        if (flight.waiting === 0) {
          if (this.#flights.get(key) === flight) this.#flights.delete(key); // new callers must not join cancelled work
          flight.abort.abort(signal.reason);
        } else {
          reject(signal.reason);
        }
      };
      if (signal.aborted) leave();
      const end = onAbort(signal, leave);
      flight.result.then(
        (value) => {
          end();
          resolve({ value, joined });
        },
        (error: unknown) => {
          end();
          reject(error);
        },
      );
    });
  }
}
