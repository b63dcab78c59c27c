import {
  ProtocolError,
  SdkError,
  SdkErrorCode,
  type CallToolRequestParams,
  type JSONRPCMessage,
  type Transport,
} from '@modelcontextprotocol/client';
import type { JsonObject } from '@toolfleet/contracts';
import { InFlightMap, onAbort } from '@toolfleet/resilience';
import { intercept, TAKEN } from './traffic.js';

/** Ids from here on: the SDK's client counts from 0, and some servers keep ids in 32 bits. */
const FIRST_ID = 1_000_000_000;

interface OpenPlainCall extends PromiseWithResolvers<JsonObject> {
  /** Ends the wait for the signal of the call. */
  leave(): void;
}

/**
 * Calls of tools on servers of the 2025 revisions, past the SDK's client: its schemas, its timer and its listeners would cost a call about
 * 150 functions. The messages, also of a cancellation, and the errors are the client's. They take the same transport, so whatever observes
 * the messages of a session sees these as well. All other requests are the client's.
 */
export class PlainCalls {
  readonly #open = new InFlightMap<number, OpenPlainCall>();
  #lastId = FIRST_ID;

  /** @param transport without observers: those that are added later see the answers first */
  constructor(private readonly transport: Transport) {
    intercept(transport, 'onmessage', (message) => (this.#take(message) ? TAKEN : undefined));
    intercept(transport, 'onclose', () => {
      for (const call of this.#open.values()) {
        call.leave();
        call.reject(new SdkError(SdkErrorCode.ConnectionClosed, 'Connection closed'));
      }
      this.#open.clear();
    });
  }

  /**
   * @param signal sends a cancellation
   * @returns the result as it arrived
   * @throws ProtocolError, SdkError, and whatever the transport throws
   */
  async call(params: CallToolRequestParams, signal: AbortSignal): Promise<JsonObject> {
    if (signal.aborted) throw signal.reason;
    const outcome = Promise.withResolvers<JsonObject>();
    const id = (this.#lastId += 1);
    const leave = onAbort(signal, () => this.#cancel(id, String(signal.reason)));
    this.#open.set(id, { ...outcome, leave });
    const sent = this.transport.send({ method: 'tools/call', params: { ...params }, jsonrpc: '2.0', id });
    sent.catch((error: unknown) => this.#end(id)?.reject(error));
    return outcome.promise;
  }

  #cancel(id: number, reason: string): void {
    const call = this.#end(id);
    if (!call) return;
    const params = { requestId: id, reason };
    this.transport.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params }).catch(() => undefined);
    call.reject(new SdkError(SdkErrorCode.RequestTimeout, reason));
  }

  /** Takes the answer to a call. @returns false for all other messages */
  #take(message: JSONRPCMessage): boolean {
    if ('method' in message) return false;
    const call = this.#end(Number(message.id));
    if (!call) return false;
    if ('error' in message) {
      const { code, message: text, data } = message.error;
      call.reject(ProtocolError.fromError(code, text, data));
    } else {
      // The 2025 revisions have no types of results.
      const { resultType, ...result } = message.result as JsonObject;
      call.resolve(resultType === undefined ? (message.result as JsonObject) : result);
    }
    return true;
  }

  #end(id: number): OpenPlainCall | undefined {
    const call = this.#open.get(id);
    this.#open.delete(id);
    call?.leave();
    return call;
  }
}
