import type { Readable } from 'node:stream';
import { ToolError } from '@toolfleet/contracts';
import { decodeBody, type ByteCount } from './decode-body.js';
import { networkError } from './network-error.js';
import type { RequestWatch } from './request-watch.js';

/** Caps of one response body. */
export interface BodyLimits {
  /** Bytes after decompression. */
  maxBytes: number;
  /** `error` (RESULT_TOO_LARGE) or `truncate` (the body ends at the cap and says so). */
  onOverflow: 'error' | 'truncate';
  /** Decompressed bytes per received byte, checked beyond `RATIO_FREE_BYTES`. */
  maxRatio: number;
}

/** Below this size any ratio passes: small bodies of repeated text compress 100:1 for honest reasons. */
const RATIO_FREE_BYTES = 1024 * 1024;

/**
 * The body of a response, decompressed and capped while it streams. Read it once: iterate, or `bytes`, `text`;
 * or `cancel` it. Until one of them has ended, the connection is not free for the next request.
 */
export class EgressBody implements AsyncIterable<Uint8Array> {
  private readonly count: ByteCount = { received: 0, decoded: 0 };
  private cut = false;
  private ended = false;

  constructor(
    private readonly raw: Readable,
    private readonly encoding: string,
    private readonly limits: BodyLimits,
    private readonly watch: RequestWatch,
    private readonly host: string,
    private readonly onEnd: () => void,
  ) {
    raw.on('error', () => undefined); // reported to whoever reads; nobody may be reading yet
    watch.watchIdle();
  }

  /** Bytes as received on the wire. */
  get bytesReceived(): number {
    return this.count.received;
  }

  /** True when the body was longer than the cap and `onOverflow` is `truncate`. Final once the body is read. */
  get truncated(): boolean {
    return this.cut;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    if (this.ended) throw new TypeError('The response body was read already');
    try {
      for await (const chunk of decodeBody(this.raw, this.encoding, this.count)) {
        this.watch.touch();
        const over = this.count.decoded - this.limits.maxBytes;
        if (over > 0) {
          if (this.limits.onOverflow === 'error') throw tooLarge(this.limits.maxBytes, 'size');
          this.cut = true;
          if (chunk.byteLength > over) yield chunk.subarray(0, chunk.byteLength - over);
          return;
        }
        if (this.count.decoded > RATIO_FREE_BYTES && this.count.decoded > this.count.received * this.limits.maxRatio) {
          throw tooLarge(this.limits.maxBytes, 'ratio');
        }
        yield chunk;
        this.watch.signal.throwIfAborted();
      }
      this.watch.signal.throwIfAborted();
    } catch (error) {
      throw this.watch.signal.aborted ? this.watch.signal.reason : networkError(error, this.host, true);
    } finally {
      this.finish();
    }
  }

  /** The whole body. @throws ToolError RESULT_TOO_LARGE, ATTEMPT_TIMED_OUT, NETWORK_ERROR, CANCELLED */
  async bytes(): Promise<Buffer> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of this) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  /** The whole body as UTF-8. */
  async text(): Promise<string> {
    return (await this.bytes()).toString('utf8');
  }

  /** Stops the upstream and frees the connection; never throws. */
  cancel(): void {
    this.finish();
  }

  private finish(): void {
    if (this.ended) return;
    this.ended = true;
    this.raw.destroy();
    this.watch.end();
    this.onEnd();
  }
}

function tooLarge(maxBytes: number, what: 'size' | 'ratio'): ToolError {
  return new ToolError('RESULT_TOO_LARGE', {
    message:
      what === 'size'
        ? `Response too large (max ${maxBytes})`
        : 'Response too large: it expands beyond the allowed ratio',
    details: { what, max_bytes: maxBytes },
  });
}
