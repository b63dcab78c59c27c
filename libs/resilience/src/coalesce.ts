/** Work of a flight: gets a signal that is aborted when nobody waits for it any more. */
type Work<T> = (signal: AbortSignal) => Promise<T>;

interface Flight<T> {
  readonly result: Promise<T>;
  readonly abort: AbortController;
  waiting: number;
}

/**
 * Runs identical concurrent work once (single flight). A caller that goes away leaves the flight; the work is cancelled
 * only when the last one has left, so one impatient caller cannot spoil the answer for the others. The last one learns how the
 * cancelled work ended.
 */
export class SingleFlight<T> {
  readonly #flights = new Map<string, Flight<T>>();

  /** Flights in the air. */
  get size(): number {
    return this.#flights.size;
  }

  /** True when `join` would share a flight that is in the air. */
  has(key: string): boolean {
    return this.#flights.has(key);
  }

  /**
   * Joins the flight of `key` or starts it.
   * @returns the outcome, and whether this caller joined another one's work
   * @throws the reason of `signal` when this caller leaves while others stay
   */
  async join(key: string, signal: AbortSignal, work: Work<T>): Promise<{ value: T; joined: boolean }> {
    const existing = this.#flights.get(key);
    const flight = existing ?? this.#start(key, work);
    flight.waiting += 1;
    return { value: await this.#wait(key, flight, signal), joined: existing !== undefined };
  }

  #start(key: string, work: Work<T>): Flight<T> {
    const abort = new AbortController();
    const flight: Flight<T> = { abort, waiting: 0, result: work(abort.signal) };
    this.#flights.set(key, flight);
    const land = () => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    };
    flight.result.then(land, land);
    return flight;
  }

  #wait(key: string, flight: Flight<T>, signal: AbortSignal): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const leave = () => {
        flight.waiting -= 1;
        if (flight.waiting === 0) {
          if (this.#flights.get(key) === flight) this.#flights.delete(key); // newcomers must not join a cancelled flight
          flight.abort.abort(signal.reason);
        } else {
          reject(signal.reason);
        }
      };
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave, { once: true });
      flight.result.then(
        (value) => {
          signal.removeEventListener('abort', leave);
          resolve(value);
        },
        (error: unknown) => {
          signal.removeEventListener('abort', leave);
          reject(error);
        },
      );
    });
  }
}
