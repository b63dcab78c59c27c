import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw, createZstdDecompress } from 'node:zlib';
import { CodedError } from '@toolfleet/base';
import { networkError } from './errors.js';
import type { RequestTimeouts } from './request-timeouts.js';
import type { ResponseReceiver } from './response-receiver.js';

/** Limits of one response body. */
interface BodyLimits {
  /** Bytes after decompression. */
  maxBytes: number;
  /** `error` fails with RESULT_TOO_LARGE; `truncate` ends the body at the limit and sets `truncated`. */
  onOverflow: 'error' | 'truncate';
  /** Decompressed bytes per received byte, checked beyond `RATIO_FREE_BYTES`. */
  maxRatio: number;
}

/** Any ratio passes below this size: small bodies of repetitive text legitimately compress 100:1. */
const RATIO_FREE_BYTES = 1024 * 1024;

/**
 * The body of a response, decompressed and limited while it streams. Read it once, by iterating or with `bytes` or `text`,
 * or `cancel` it. The connection is in use until then.
 */
export class EgressBody implements AsyncIterable<Uint8Array> {
  private readonly count: ByteCount = { received: 0, decoded: 0 };
  private readonly encodings: readonly string[];
  private cut = false;
  private closed = false;

  constructor(
    private readonly receiver: ResponseReceiver,
    encoding: string,
    private readonly limits: BodyLimits,
    private readonly watch: RequestTimeouts,
    private readonly host: string,
    private readonly onEnd: () => void,
  ) {
    this.encodings = encoding === '' ? [] : listEncodings(encoding);
    if (!receiver.ended) watch.watchIdle();
  }

  /** True if `onOverflow: 'truncate'` cut the body. Final once the body has been read. */
  get truncated(): boolean {
    return this.cut;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    this.assertUnread();
    try {
      for await (const chunk of decodeBody(this.receiver, this.encodings, this.count)) {
        yield this.limited(chunk);
        if (this.cut) return;
      }
      this.watch.throwIfStopped();
    } catch (error) {
      throw this.toFailure(error);
    } finally {
      this.finish();
    }
  }

  /** The whole body. @throws CodedError RESULT_TOO_LARGE, ATTEMPT_TIMED_OUT, NETWORK_ERROR, CANCELLED */
  async bytes(): Promise<Buffer> {
    const chunks: Uint8Array[] = [];
    if (this.encodings.length > 0) {
      for await (const chunk of this) chunks.push(chunk);
      return Buffer.concat(chunks);
    }
    this.assertUnread();
    try {
      while (!this.cut) {
        const next = this.receiver.next();
        const chunk = next instanceof Promise ? await next : next;
        if (chunk === undefined) break;
        this.count.received += chunk.byteLength;
        this.count.decoded += chunk.byteLength;
        chunks.push(this.limited(chunk));
      }
      this.watch.throwIfStopped();
    } catch (error) {
      throw this.toFailure(error);
    } finally {
      this.finish();
    }
    const [only] = chunks;
    return chunks.length === 1 && Buffer.isBuffer(only) ? only : Buffer.concat(chunks);
  }

  /** The whole body as UTF-8. */
  async text(): Promise<string> {
    return (await this.bytes()).toString('utf8');
  }

  /** Stops the upstream and releases the connection; never throws. */
  cancel(): void {
    this.finish();
  }

  /** The part of a chunk within the limits. @throws CodedError RESULT_TOO_LARGE */
  private limited(chunk: Uint8Array): Uint8Array {
    this.watch.throwIfStopped();
    this.watch.touch();
    const { received, decoded } = this.count;
    const over = decoded - this.limits.maxBytes;
    if (over > 0) {
      if (this.limits.onOverflow === 'error') throw tooLarge(this.limits.maxBytes, 'size');
      this.cut = true;
      return chunk.subarray(0, Math.max(0, chunk.byteLength - over));
    }
    if (decoded > RATIO_FREE_BYTES && decoded > received * this.limits.maxRatio) {
      throw tooLarge(this.limits.maxBytes, 'ratio');
    }
    return chunk;
  }

  private toFailure(error: unknown): CodedError {
    return this.watch.stopped ?? networkError(error, this.host, true);
  }

  private assertUnread(): void {
    if (this.closed) throw new TypeError('The response body has already been read');
  }

  private finish(): void {
    if (this.closed) return;
    this.closed = true;
    if (!this.receiver.ended) this.receiver.stop(new Error('The rest of the body is not read'));
    this.watch.end();
    this.onEnd();
  }
}

function tooLarge(maxBytes: number, what: 'size' | 'ratio'): CodedError {
  return new CodedError('RESULT_TOO_LARGE', {
    message:
      what === 'size'
        ? `Response too large (max ${maxBytes})`
        : 'Response too large: it exceeds the compression ratio limit',
    details: { what, max_bytes: maxBytes },
  });
}

/** The default `Accept-Encoding`. */
export const ACCEPTED_ENCODINGS = 'gzip, deflate, br, zstd';
/** Most stacked encodings; legitimate servers apply one. */
const MAX_LAYERS = 2;

/** Bytes of one body before and after decompression. */
interface ByteCount {
  received: number;
  decoded: number;
}

/** The encodings of a `Content-Encoding` header, in the order they were applied. */
function listEncodings(header: string): string[] {
  return header
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity');
}

/**
 * Decodes a response body chunk by chunk and counts its bytes on both sides. At most one chunk is buffered, so a reader
 * that stops also stops the upstream.
 * @throws CodedError NETWORK_ERROR for an unknown encoding or corrupt data
 */
async function* decodeBody(
  receiver: ResponseReceiver,
  encodings: readonly string[],
  count: ByteCount,
): AsyncGenerator<Uint8Array> {
  if (encodings.length > MAX_LAYERS) throw undecodable(`it has more than ${MAX_LAYERS} content encodings`);
  let chunks: AsyncIterable<Uint8Array> = counted(receiver, count);
  // The header lists encodings in the order they were applied (RFC 9110, 8.4), so the last one is decoded first.
  for (const encoding of encodings.toReversed()) chunks = decodeLayer(chunks, encoding);
  for await (const chunk of chunks) {
    count.decoded += chunk.byteLength;
    yield chunk;
  }
}

async function* counted(receiver: ResponseReceiver, count: ByteCount): AsyncGenerator<Uint8Array> {
  for (let chunk = await receiver.next(); chunk; chunk = await receiver.next()) {
    count.received += chunk.byteLength;
    yield chunk;
  }
}

async function* decodeLayer(source: AsyncIterable<Uint8Array>, encoding: string): AsyncGenerator<Uint8Array> {
  const iterator = source[Symbol.asyncIterator]();
  const first = await iterator.next();
  if (first.done) return; // HEAD and 204 may announce an encoding without a body
  const decoder = decoderFor(encoding, first.value);
  let upstreamError: unknown;
  const feed = async () => {
    try {
      for (let item: IteratorResult<Uint8Array> = first; !item.done; item = await iterator.next()) {
        if (decoder.destroyed) return;
        if (!decoder.write(item.value)) await drained(decoder);
      }
      decoder.end();
    } catch (error) {
      upstreamError = error;
      decoder.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  };
  void feed();
  try {
    for await (const chunk of decoder as AsyncIterable<Uint8Array>) yield chunk;
  } catch (error) {
    if (upstreamError !== undefined) throw upstreamError;
    throw undecodable(error instanceof Error ? error.message : String(error));
  } finally {
    decoder.destroy();
    // Not awaited: a stalled upstream would block here. EgressBody closes the socket.
    iterator.return?.(undefined).catch(() => undefined);
  }
}

function drained(decoder: Transform): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      decoder.off('drain', done).off('close', done).off('error', done);
      resolve();
    };
    decoder.on('drain', done).on('close', done).on('error', done);
  });
}

function decoderFor(encoding: string, first: Uint8Array): Transform {
  switch (encoding) {
    case 'gzip':
    case 'x-gzip':
      return createGunzip();
    case 'deflate':
      // RFC 9110 specifies zlib, but some servers send raw deflate. The low nibble of a zlib header is compression method 8.
      return ((first[0] ?? 0) & 0x0f) === 8 ? createInflate() : createInflateRaw();
    case 'br':
      return createBrotliDecompress();
    case 'zstd':
      return createZstdDecompress();
    default:
      throw undecodable(`unsupported content encoding "${encoding.slice(0, 40)}"`);
  }
}

function undecodable(why: string): CodedError {
  return new CodedError('NETWORK_ERROR', {
    message: `The response body cannot be decoded: ${why}`,
    details: { reason: 'content_encoding' },
    facts: { delivered: true },
  });
}
