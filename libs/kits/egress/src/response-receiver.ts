import type { Dispatcher } from 'undici';

/** Bytes that may wait for a reader; beyond that the socket is paused. */
const MAX_WAITING_BYTES = 64 * 1024;

/** Status line and headers of a response. */
export interface ResponseHead {
  status: number;
  statusText: string;
  /** Names in lower case; repeated headers as an array. */
  headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** The value of a header, also of one that is repeated (RFC 9110 section 5.3). */
export function joinHeader(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

/**
 * Receives one response from an undici pool: the head as a promise, the body as chunks that wait for `next`. A response
 * that arrived in one piece is complete before its reader starts, and is then read without a stream, event or promise.
 */
export class ResponseReceiver implements Dispatcher.DispatchHandler {
  /** Whether the request was written, at least in part. Otherwise the upstream provably never saw it. */
  started = false;
  /** Rejects with the error of undici or the reason of `stop`. */
  readonly head: Promise<ResponseHead>;
  private readonly chunks: Buffer[] = [];
  private waitingBytes = 0;
  private complete = false;
  private failure: { reason: unknown } | undefined;
  private controller: Dispatcher.DispatchController | undefined;
  private reader: PromiseWithResolvers<Buffer | undefined> | undefined;
  private readonly resolveHead: (head: ResponseHead) => void;
  private readonly rejectHead: (reason: unknown) => void;

  constructor() {
    const { promise, resolve, reject } = Promise.withResolvers<ResponseHead>();
    this.head = promise;
    this.resolveHead = resolve;
    this.rejectHead = reject;
  }

  /** Whether the whole body has arrived. */
  get ended(): boolean {
    return this.complete;
  }

  /** The next chunk, undefined after the last one; a promise if it has not arrived. @throws what ended the response early */
  next(): Buffer | undefined | Promise<Buffer | undefined> {
    if (this.failure) throw this.failure.reason;
    const chunk = this.chunks.shift();
    if (chunk) {
      this.waitingBytes -= chunk.byteLength;
      if (this.waitingBytes < MAX_WAITING_BYTES) this.controller?.resume();
      return chunk;
    }
    if (this.complete) return undefined;
    this.reader = Promise.withResolvers();
    return this.reader.promise;
  }

  /** Fails the response and closes its socket, unless the body is complete. A request that still waits for a socket is not sent. */
  stop(reason: Error): void {
    if (this.complete || this.failure) return;
    this.fail(reason);
    this.controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.failure) return controller.abort(toError(this.failure.reason));
    this.started = true;
    this.controller = controller;
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: ResponseHead['headers'],
    statusText = '',
  ): void {
    if (status >= 200) this.resolveHead({ status, statusText, headers });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.failure) return;
    if (this.reader) {
      this.reader.resolve(chunk);
      this.reader = undefined;
      return;
    }
    this.chunks.push(chunk);
    this.waitingBytes += chunk.byteLength;
    if (this.waitingBytes >= MAX_WAITING_BYTES) controller.pause();
  }

  onResponseEnd(): void {
    this.complete = true;
    this.reader?.resolve(undefined);
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.fail(error);
  }

  private fail(reason: unknown): void {
    if (this.failure) return;
    this.failure = { reason };
    this.chunks.length = 0;
    this.rejectHead(reason);
    this.reader?.reject(reason);
  }
}

const toError = (reason: unknown): Error => (reason instanceof Error ? reason : new Error(String(reason)));
