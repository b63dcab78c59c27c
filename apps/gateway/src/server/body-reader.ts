import { Worker } from 'node:worker_threads';
import { readJson, type JsonFault, type JsonReading } from '@toolfleet/contracts/json-text';
import { CostlyTurns, FairQueue, type Clock } from '@toolfleet/resilience';
import { childProgram, programFlags } from '@toolfleet/resilience/child-pool';
import type { BodyMessage, BodyReply } from './body-worker.js';

/** Smaller bodies are read at once. */
export const SMALL_BYTES = 64 * 1024;
/** Larger bodies are read on a thread: a text of 8 MB with escapes takes 150 ms to count and to parse, and a tenth of it to receive. */
export const THREAD_BYTES = 256 * 1024;
/** The value of the largest body takes a few times its size. */
const THREAD_HEAP_MB = 256;
const LOST: JsonFault = { fault: 'nodes', message: 'The body takes too much memory to read' };

/**
 * Reads the JSON bodies of requests so that large ones do not delay the calls of others: they arrive in chunks, one per turn of the event
 * loop; the largest go to a thread chunk by chunk that parses one at a time and refuses what exceeds the limits before the rest has
 * arrived; and the event loop rests after each. Tenants take turns.
 */
export class BodyReader {
  readonly #turns: CostlyTurns;
  readonly #waiting = new FairQueue<() => Promise<void>>();
  readonly #thread = new BodyThread();
  #isReading = false;

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
    const body = this.receive(tenantId);
    for (let at = 0; at < bytes.length && !body.isOver; at += THREAD_BYTES) {
      // The caller keeps its bytes.
      await body.take(new Uint8Array(bytes.subarray(at, at + THREAD_BYTES)));
    }
    return body.end();
  }

  /** Begins to read a body of more than `THREAD_BYTES` that arrives in chunks. */
  receive(tenantId: string): ArrivingBody {
    return new ArrivingBody(
      this.#thread,
      () => this.#turns.next(tenantId),
      (read) => this.#inTurn(tenantId, read),
    );
  }

  /** Has the thread parse one body at a time; tenants take turns. */
  async #inTurn(tenantId: string, read: () => Promise<JsonReading>): Promise<JsonReading> {
    const { promise, resolve } = Promise.withResolvers<JsonReading>();
    this.#waiting.push(tenantId, async () => {
      const reading = await read();
      // The call that follows works with a large value.
      await this.#turns.next(tenantId);
      resolve(reading);
    });
    if (!this.#isReading) void this.#readAll();
    return promise;
  }

  async #readAll(): Promise<void> {
    this.#isReading = true;
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) await next();
    this.#isReading = false;
  }
}

/** A large body of which chunks arrive. Its memory belongs to the thread, so that the event loop neither keeps nor collects it. */
export class ArrivingBody {
  /** Why the body is refused, before all of it has arrived; pending if it is not. */
  readonly refused: Promise<JsonFault>;
  readonly #refuse: (fault: JsonFault) => void;
  readonly #id: number;
  #read: ((reading: JsonReading) => void) | undefined;
  #isOver = false;

  constructor(
    private readonly thread: BodyThread,
    private readonly turn: () => Promise<void>,
    private readonly inTurn: (read: () => Promise<JsonReading>) => Promise<JsonReading>,
  ) {
    ({ promise: this.refused, resolve: this.#refuse } = Promise.withResolvers<JsonFault>());
    this.#id = thread.open((reading) => this.#receive(reading));
  }

  /** Whether it has been refused or read: further chunks are dropped. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Takes the next chunk; do not use it afterwards. Resolves when there is time for one more. */
  async take(chunk: Uint8Array): Promise<void> {
    await this.turn();
    if (!this.#isOver) this.thread.send({ id: this.#id, chunk });
  }

  /** Reads the body after its last chunk. */
  end(): Promise<JsonReading> {
    if (this.#isOver) return this.refused;
    return this.inTurn(async () => {
      if (this.#isOver) return this.refused;
      const { promise, resolve } = Promise.withResolvers<JsonReading>();
      this.#read = resolve;
      this.thread.send({ id: this.#id, isWhole: true });
      return promise;
    });
  }

  /** Refuses the body unless it was read: its rest does not arrive, its client has gone, or it is too large. */
  drop(fault: JsonFault = LOST): void {
    if (this.#isOver || this.#read) return;
    this.#isOver = true;
    this.#refuse(fault);
    this.thread.close(this.#id);
  }

  #receive(reading: JsonReading): void {
    this.#isOver = true;
    if (reading.fault !== undefined) this.#refuse(reading);
    this.#read?.(reading);
  }
}

/** The thread that reads bodies. It starts with the first one, and again when it ran out of memory. */
class BodyThread {
  readonly #open = new Map<number, (reading: JsonReading) => void>();
  #worker: Worker | undefined;
  #nextId = 1;

  /** @param receive called once: with the whole body, or with a fault before that */
  open(receive: (reading: JsonReading) => void): number {
    const id = this.#nextId++;
    this.#open.set(id, receive);
    return id;
  }

  send(message: BodyMessage): void {
    const worker = (this.#worker ??= this.#start());
    const memory = 'chunk' in message ? message.chunk.buffer : undefined;
    // Memory that other chunks share is copied.
    const isOwn =
      memory instanceof ArrayBuffer && memory.byteLength === (message as { chunk: Uint8Array }).chunk.length;
    worker.postMessage(message, isOwn ? [memory] : []);
  }

  close(id: number): void {
    if (this.#open.delete(id)) this.#worker?.postMessage({ id, isDropped: true } satisfies BodyMessage);
  }

  #start(): Worker {
    const program = childProgram(import.meta.url, 'body-worker');
    const worker = new Worker(program, {
      resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MB },
      execArgv: programFlags(program),
    });
    worker.on('message', ({ id, reading }: BodyReply) => this.#settle(id, reading));
    // A thread that ran out of memory emits an error, and every thread that ends emits exit.
    const onLost = (): void => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      for (const id of this.#open.keys()) this.#settle(id, LOST);
    };
    worker.on('error', onLost).on('exit', onLost).unref();
    return worker;
  }

  #settle(id: number, reading: JsonReading): void {
    const receive = this.#open.get(id);
    this.#open.delete(id);
    // Chunks that were under way when the thread refused the body are dropped there.
    if (reading.fault !== undefined) this.#worker?.postMessage({ id, isDropped: true } satisfies BodyMessage);
    receive?.(reading);
  }
}
