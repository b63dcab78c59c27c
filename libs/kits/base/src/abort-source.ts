import { runApart } from './run-apart.js';

const ACTIONS = Symbol('actions of onAbort');

/** A signal with the actions to take when it is aborted, if an `AbortSource` made it. */
interface SourceSignal extends AbortSignal {
  [ACTIONS]?: Set<() => void>;
}

/**
 * An AbortController with a signal that keeps the actions of `onAbort` in a list. Listeners of Node's signals cost about thirty function calls
 * each, and a call waits for many signals of which none is aborted. Other listeners of the signal work as usual.
 */
export class AbortSource {
  readonly #controller = new AbortController();
  readonly #actions = new Set<() => void>();
  readonly signal: AbortSignal = this.#controller.signal;

  constructor() {
    (this.signal as SourceSignal)[ACTIONS] = this.#actions;
  }

  /** Aborts the signal; only the first call counts. */
  abort(reason?: unknown): void {
    if (this.signal.aborted) return;
    this.#controller.abort(reason);
    for (const action of this.#actions) runApart(action);
    this.#actions.clear();
  }
}

/**
 * Calls `action` once a signal is aborted; not for one that is aborted already. @returns a function that ends this
 *
 * Keep that function, not the action (`this.stop = () => …`): V8 allocates a function literal that is assigned to a property in the old
 * generation, where it keeps all that it refers to, often a whole call, through all minor collections.
 */
export function onAbort(signal: AbortSignal, action: () => void): () => void {
  const actions = (signal as SourceSignal)[ACTIONS];
  if (!actions) {
    signal.addEventListener('abort', action, { once: true });
    return () => signal.removeEventListener('abort', action);
  }
  actions.add(action);
  return () => actions.delete(action);
}
