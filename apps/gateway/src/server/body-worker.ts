/** Reads large bodies on a thread that receives them in chunks and sends a `JsonReading` of each. */
import { parentPort } from 'node:worker_threads';
import { excessOfPrefix, readJson, type JsonReading } from '@toolfleet/contracts/json-text';
import { yieldCpu } from '@toolfleet/resilience/child-program';

/** A message to the thread: a chunk of a body, or that it has all chunks or gets no more of them. */
export type BodyMessage =
  | { id: number; chunk: Uint8Array }
  | { id: number; isWhole: true }
  | { id: number; isDropped: true };

/** A body that was read, or was refused before its last chunk. */
export interface BodyReply {
  id: number;
  reading: JsonReading;
}

/** The received bytes are counted at this size, and again at four times the size: together less than half as long as the whole body. */
const FIRST_COUNT_BYTES = 256 * 1024;
const COUNT_GROWTH = 4;

interface ReceivedBody {
  chunks: Uint8Array[];
  bytes: number;
  countAt: number;
}

yieldCpu();

const bodies = new Map<number, ReceivedBody>();
const reply = (id: number, reading: JsonReading): void => {
  bodies.delete(id);
  parentPort!.postMessage({ id, reading } satisfies BodyReply);
};

parentPort!.on('message', (message: BodyMessage) => {
  const { id } = message;
  if ('isDropped' in message) return void bodies.delete(id);
  if ('isWhole' in message) {
    const body = bodies.get(id);
    // A refused body has its reply.
    if (body) reply(id, readJson(Buffer.concat(body.chunks)));
    return;
  }
  const { chunk } = message;
  let body = bodies.get(id);
  if (!body) bodies.set(id, (body = { chunks: [], bytes: 0, countAt: FIRST_COUNT_BYTES }));
  body.chunks.push(chunk);
  body.bytes += chunk.length;
  if (body.bytes < body.countAt) return;
  body.countAt *= COUNT_GROWTH;
  const excess = excessOfPrefix(Buffer.concat(body.chunks));
  if (excess) reply(id, excess);
});
