/** Counts open sockets of all origins and makes the next one wait while the cap is reached. */
export class ConnectionSlots {
  private open = 0;
  private readonly waiting: (() => void)[] = [];

  /** @param onFull called each time somebody has to wait, so that idle sockets can be closed */
  constructor(
    private readonly total: number,
    private readonly onFull: () => void,
  ) {}

  /** Resolves with the release function, which may be called more than once. Rejects with the signal's reason. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.open >= this.total) {
      this.onFull();
      await this.turn(signal);
    } else {
      this.open += 1;
    }
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const next = this.waiting.shift();
      // The place goes straight to the next in line, so that nobody can overtake.
      if (next) next();
      else this.open -= 1;
    };
  }

  /** Sockets open or being opened. */
  get inUse(): number {
    return this.open;
  }

  private turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const admitted = () => {
        signal.removeEventListener('abort', gaveUp);
        resolve();
      };
      const gaveUp = () => {
        this.waiting.splice(this.waiting.indexOf(admitted), 1);
        reject(signal.reason);
      };
      this.waiting.push(admitted);
      signal.addEventListener('abort', gaveUp, { once: true });
    });
  }
}
