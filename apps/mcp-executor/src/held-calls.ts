import { randomUUID } from 'node:crypto';
import type { ElicitResult, Progress } from '@modelcontextprotocol/client';
import { isJsonObject, ToolError, type Json, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import { FairSlots, type CancelTimer, type Clock } from '@toolfleet/resilience';
import { RequestExchange, type Asker } from './exchange.js';
import type { UpstreamSession } from './mcp-session.js';
import type { CreatedTask } from './server-task.js';

interface Question {
  params: JsonObject;
  answer(result: ElicitResult): void;
}

/**
 * A call at a server of the 2025 revisions that may ask the caller while it runs (`elicitation/create`) and keeps the call open until it
 * has the answer. For the fleet each question ends an attempt, and the attempt with the answer goes on with the open call.
 */
export class OpenCall implements Asker {
  readonly exchange = new RequestExchange();
  session: UpstreamSession | undefined;
  #onProgress: ((progress: Progress) => void) | undefined;
  readonly #questions = new Map<string, Question>();
  #asked = 0;
  #isAsked = Promise.withResolvers<undefined>();
  #outcome: Promise<ExecResponse | CreatedTask> | undefined;

  constructor() {
    this.exchange.asker = this;
  }

  /** Sets the function that is called for each progress notification of the server from now on. */
  reportTo(onProgress: (progress: Progress) => void): void {
    this.#onProgress = onProgress;
  }

  /** The server made progress. */
  progressed(progress: Progress): void {
    this.#onProgress?.(progress);
  }

  /** Begins the call. `work` must run in the exchange of this call. */
  begin(work: Promise<ExecResponse | CreatedTask>): void {
    this.#outcome = work;
    // The call may end while its caller is asked.
    work.catch(() => undefined);
  }

  /** The outcome of the call, or the task that the server made of it; undefined when the server asks first. @throws whatever the call throws */
  async next(): Promise<ExecResponse | CreatedTask | undefined> {
    return Promise.race([this.#outcome!, this.#isAsked.promise]);
  }

  /** The server's current questions, as requests of MCP by key. */
  get questions(): Record<string, JsonObject> {
    const asked = [...this.#questions].map(([key, { params }]) => [key, { method: 'elicitation/create', params }]);
    return Object.fromEntries(asked) as Record<string, JsonObject>;
  }

  /** Answers questions by key. One that the server no longer asks is left out. */
  answer(responses: JsonObject): void {
    for (const [key, response] of Object.entries(responses)) {
      const question = this.#questions.get(key);
      this.#questions.delete(key);
      question?.answer(isJsonObject(response) ? (response as unknown as ElicitResult) : { action: 'cancel' });
    }
    this.#isAsked = Promise.withResolvers();
    if (this.#questions.size > 0) this.#isAsked.resolve(undefined);
  }

  /** Asks the caller and ends the attempt. Resolves with the answer of a later attempt. */
  ask({ _meta, ...params }: JsonObject, signal: AbortSignal): Promise<ElicitResult> {
    const { promise, resolve } = Promise.withResolvers<ElicitResult>();
    const key = `question-${(this.#asked += 1)}`;
    this.#questions.set(key, { params, answer: resolve });
    signal.addEventListener('abort', () => this.#questions.delete(key), { once: true });
    this.#isAsked.resolve(undefined);
    return promise;
  }
}

/** Longest wait for the answer: a little longer than the gateway gives the caller. */
const HELD_MS: Milliseconds = 10.5 * 60_000;
/** Maximum numbers of calls that are held: each occupies a connection to its server. */
const MAX_HELD = { perTenant: 25, perServer: 50, total: 200 };
/** Connections of sessions with calls that may be held. Other sessions have others, and answers and further calls find free ones. */
export const HELD_CONNECTIONS = { connectionsPerHost: 64, totalConnections: 300 };

interface HeldCall {
  call: OpenCall;
  message: ExecMessage;
  cancelTimer: CancelTimer;
  release: () => void;
}

/** Open calls with questions to callers. Their answers come to this process: the connection of a call cannot move. */
export class HeldCalls {
  /** Names this process in questions (`RequiredInput.executor`). */
  readonly executor = randomUUID();
  readonly #held = new Map<string, HeldCall>();
  readonly #slots = new FairSlots('held_calls', MAX_HELD.total, MAX_HELD.perTenant);

  constructor(private readonly clock: Clock) {}

  /** Holds a call until its answer. @throws ToolError QUEUE_FULL when there are too many; then the call is ended */
  hold(message: ExecMessage, call: OpenCall): void {
    const urlOf = ({ binding }: ExecMessage): unknown => binding.kind === 'mcp' && binding.url;
    const ofServer = [...this.#held.values()].filter((held) => urlOf(held.message) === urlOf(message)).length;
    const release = ofServer < MAX_HELD.perServer ? this.#slots.take(message.context.tenant_id) : undefined;
    if (!release) {
      const error = new ToolError('QUEUE_FULL', {
        message: 'Too many calls wait for answers to the questions of MCP servers',
        facts: { begun: 'ended' },
      });
      call.exchange.stop(error);
      throw error;
    }
    const cancelTimer = this.clock.after(HELD_MS, () => this.#end(message.call_id));
    this.#held.set(message.call_id, { call, message, cancelTimer, release });
  }

  /** The open call that an attempt goes on with; undefined when it has ended, or belongs to another caller. */
  take({ call_id: id, tool, revision, context }: ExecMessage): OpenCall | undefined {
    const held = this.#held.get(id);
    const { message } = held ?? {};
    if (!held || message?.tool !== tool || message.revision !== revision) return undefined;
    if (message.context.tenant_id !== context.tenant_id) return undefined;
    this.#held.delete(id);
    held.cancelTimer();
    held.release();
    return held.call;
  }

  /** Receives `exec.cancel`: the caller will not answer. */
  cancelled(body: unknown): void {
    if (isJsonObject(body as Json)) this.#end(String((body as JsonObject)['call_id']));
  }

  /** Ends a held call, also at its server. */
  #end(callId: string): void {
    const held = this.#held.get(callId);
    this.#held.delete(callId);
    held?.cancelTimer();
    held?.release();
    held?.call.exchange.stop(new ToolError('CANCELLED', { message: 'The question was not answered' }));
  }

  /** Ends all. */
  close(): void {
    for (const id of this.#held.keys()) this.#end(id);
  }
}
