import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import type { OutgoingHeaders } from './headers.js';
import type { IncomingMessage } from './nats-message.js';
import { decodeReply } from './codec.js';
import type { ClientInternals, PendingCall } from './pending-call.js';
import { noResponders } from './no-responders.js';

/** One request that takes one reply. */
export class PlainCall implements PendingCall {
  readonly dueAt: number;
  #token = '';
  #onAbort: (() => void) | undefined;

  constructor(
    private readonly client: ClientInternals,
    private readonly subject: string,
    remainingMs: Milliseconds,
    private readonly signal: AbortSignal | undefined,
    private readonly resolve: (value: unknown) => void,
    private readonly reject: (error: ToolError) => void,
  ) {
    this.dueAt = client.clock.monotonic() + remainingMs;
  }

  send(data: Uint8Array, headers: OutgoingHeaders): void {
    this.#token = this.client.waiting.add(this);
    try {
      this.client.link.publish(this.subject, data, {
        reply: this.client.replySubject(this.#token),
        headers,
        failed: (cause) => this.fail(new ToolError('EXECUTOR_UNAVAILABLE', { message: 'NATS is away', cause })),
      });
    } catch (error) {
      this.#end();
      throw error;
    }
    if (this.signal) {
      this.#onAbort = () => this.fail(new ToolError('CANCELLED', { cause: this.signal?.reason }));
      this.signal.addEventListener('abort', this.#onAbort, { once: true });
    }
  }

  replied(_token: string, message: IncomingMessage): void {
    this.#end();
    if (message.isNoResponders) return this.reject(noResponders(this.subject, this.client.metrics));
    try {
      this.resolve(decodeReply(message));
    } catch (error) {
      this.reject(error as ToolError);
    }
  }

  due(): void {
    this.fail(new ToolError('DEADLINE_EXCEEDED', { message: `No reply on ${this.subject} in time` }));
  }

  fail(error: ToolError): void {
    this.#end();
    this.reject(error);
  }

  #end(): void {
    this.client.waiting.remove(this.#token);
    if (this.#onAbort) this.signal?.removeEventListener('abort', this.#onAbort);
  }
}
