import type { Readable, Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw, createZstdDecompress } from 'node:zlib';
import { ToolError } from '@toolfleet/contracts';

/** What we offer in `Accept-Encoding` when the caller names nothing. */
export const ACCEPTED_ENCODINGS = 'gzip, deflate, br, zstd';
/** Encodings stacked at most; nobody sends more than one for honest reasons. */
const MAX_LAYERS = 2;

/** Bytes before and after decompression of one body. */
export interface ByteCount {
  received: number;
  decoded: number;
}

/**
 * The decoded bytes of a response body, chunk by chunk, counted on both sides. Nothing is buffered beyond one chunk, so
 * whoever stops reading stops the upstream as well.
 * @throws ToolError NETWORK_ERROR on an unknown encoding or damaged data
 */
export async function* decodeBody(
  body: Readable,
  encodingHeader: string,
  count: ByteCount,
): AsyncGenerator<Uint8Array> {
  const encodings = encodingHeader
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity');
  if (encodings.length > MAX_LAYERS) throw undecodable(`more than ${MAX_LAYERS} content encodings`);

  let chunks: AsyncIterable<Uint8Array> = counted(body, (bytes) => (count.received += bytes));
  // Listed in the order they were applied (RFC 9110 8.4), so they come off from the last.
  for (const encoding of encodings.toReversed()) chunks = decodeLayer(chunks, encoding);
  for await (const chunk of chunks) {
    count.decoded += chunk.byteLength;
    yield chunk;
  }
}

async function* counted(body: Readable, add: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    add(chunk.byteLength);
    yield chunk;
  }
}

async function* decodeLayer(source: AsyncIterable<Uint8Array>, encoding: string): AsyncGenerator<Uint8Array> {
  const iterator = source[Symbol.asyncIterator]();
  const first = await iterator.next();
  if (first.done) return; // an empty body has nothing to decode, whatever the header says (HEAD, 204)
  const decoder = decoderFor(encoding, first.value);
  let upstreamFault: unknown;
  const feed = async () => {
    try {
      for (let item: IteratorResult<Uint8Array> = first; !item.done; item = await iterator.next()) {
        if (decoder.destroyed) return;
        if (!decoder.write(item.value)) await drained(decoder);
      }
      decoder.end();
    } catch (error) {
      upstreamFault = error;
      decoder.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  };
  void feed();
  try {
    for await (const chunk of decoder as AsyncIterable<Uint8Array>) yield chunk;
  } catch (error) {
    if (upstreamFault !== undefined) throw upstreamFault;
    throw undecodable(error instanceof Error ? error.message : String(error));
  } finally {
    decoder.destroy();
    // Not awaited: a stalled upstream would hold us here. Whoever reads the outermost layer destroys the socket's stream.
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
      // RFC 9110 means zlib; some servers send raw deflate. A zlib header has compression method 8 in its low nibble.
      return ((first[0] ?? 0) & 0x0f) === 8 ? createInflate() : createInflateRaw();
    case 'br':
      return createBrotliDecompress();
    case 'zstd':
      return createZstdDecompress();
    default:
      throw undecodable(`unknown content encoding "${encoding.slice(0, 40)}"`);
  }
}

function undecodable(why: string): ToolError {
  return new ToolError('NETWORK_ERROR', {
    message: `The response body cannot be decoded: ${why}`,
    details: { reason: 'content_encoding', delivered: true },
  });
}
