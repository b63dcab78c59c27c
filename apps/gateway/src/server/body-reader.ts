import { Worker } from 'node:worker_threads';
import { readJson, type JsonReading } from '@toolfleet/contracts/json-text';
import { CostlyTurns, FairQueue, type Clock } from '@toolfleet/resilience';
import { childProgram, programFlags } from '@toolfleet/resilience/child-pool';

/** Smaller bodies are read at once. */
export const SMALL_BYTES = 64 * 1024;
/** Larger bodies are read on a thread: a text of 8 MB with escapes takes 150 ms to count and to parse, and a tenth of it to receive. */
const THREAD_BYTES = 256 * 1024;
/** The value of the largest body takes a few times its size. */
const THREAD_HEAP_MB = 256;

interface Waiting {
  tenantId: string;
  bytes: Uint8Array;
  resolve: (reading: JsonReading) => void;
}

/**
 * Reads the JSON bodies of requests so that large ones do not delay the calls of others: they arrive in chunks, one per turn of the event
 * loop; the largest are parsed on a thread, one at a time; and the event loop rests after each. Tenants take turns.
 */
export class BodyReader {
  readonly #turns: CostlyTurns;
  readonly #waiting = new FairQueue<Waiting>();
  #isReading = false;
  #thread: Worker | undefined;

  constructor(clock: Clock) {
    this.#turns = new CostlyTurns(clock);
  }

  /** Resolves when the next chunk of a large body may be taken. */
  turn(tenantId: string): Promise<void> {
    return this.#turns.next(tenantId);
  }

  /** Reads a body that is not empty. */
  async read(tenantId: string, bytes: Uint8Array): Promise<JsonReading> {
    if (bytes.length <= SMALL_BYTES) return readJson(bytes);
    if (bytes.length <= THREAD_BYTES) {
      await this.#turns.next(tenantId);
      return readJson(bytes);
    }
    const { promise, resolve } = Promise.withResolvers<JsonReading>();
    this.#waiting.push(tenantId, { tenantId, bytes, resolve });
    if (!this.#isReading) void this.#readAll();
    const reading = await promise;
    // The call that follows works with a large value.
    await this.#turns.next(tenantId);
    return reading;
  }

  async #readAll(): Promise<void> {
    this.#isReading = true;
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      await this.#turns.next(next.tenantId);
      next.resolve(await this.#readOnThread(next.bytes));
    }
    this.#isReading = false;
  }

  #readOnThread(bytes: Uint8Array): Promise<JsonReading> {
    const thread = (this.#thread ??= startThread());
    const { promise, resolve } = Promise.withResolvers<JsonReading>();
    const onLost = (): void => {
      this.#thread = undefined;
      resolve({ fault: 'nodes', message: 'The body takes too much memory to read' });
    };
    // A thread that ran out of memory emits an error, and every thread that ends emits exit.
    thread.once('message', resolve).once('error', onLost).once('exit', onLost);
    thread.postMessage(bytes);
    return promise.finally(() => thread.off('message', resolve).off('error', onLost).off('exit', onLost));
  }
}

function startThread(): Worker {
  const program = childProgram(import.meta.url, 'body-worker');
  const thread = new Worker(program, {
    resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MB },
    execArgv: programFlags(program),
  });
  // An error after a body was refused ends the thread; without a listener it would end the process.
  thread.on('error', () => undefined).unref();
  return thread;
}
