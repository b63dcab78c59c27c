import { DenoBuffer } from 'nats/lib/nats-base-client/denobuffer.js';
import { Parser } from 'nats/lib/nats-base-client/parser.js';
import { freeMemory } from './free-memory.js';

/** The members of the parser that this file uses; the package declares them private. */
interface ParserState {
  /** The message that is being received. */
  ma: { size: number };
  /** Its received bytes, when it did not arrive in one chunk. */
  msgBuf?: DenoBuffer & { _buf: Uint8Array };
}

let isInstalled = false;

/**
 * Lets the NATS client receive a large message into one buffer of its size. As shipped it doubles a buffer while chunks of 64 KB
 * arrive: a message of 4 MB leaves 12 MB of garbage outside the V8 heap, and every 64 MB of that cost a full collection on the
 * event loop that serves all calls. The chunks are freed once they are copied. Applies to all connections of the process; does nothing when the client's parser
 * has other members than expected.
 */
export function receiveIntoOneBuffer(): void {
  if (isInstalled) return;
  isInstalled = true;
  const parse = Parser.prototype.parse;
  Parser.prototype.parse = function (this: Parser, chunk: Uint8Array): void {
    const state = this as unknown as ParserState;
    const before = state.msgBuf;
    parse.call(this, chunk);
    const started = state.msgBuf;
    // All of the chunk was copied into the buffer of a message that goes on.
    if (before && started === before) return freeMemory(chunk);
    if (!started || !(state.ma?.size > started.capacity)) return;
    const received = started.bytes({ copy: false });
    const whole = new Uint8Array(state.ma.size);
    whole.set(received);
    const buffer = new DenoBuffer() as NonNullable<ParserState['msgBuf']>;
    // A view of the received bytes: the buffer grows into the rest of its memory.
    buffer._buf = whole.subarray(0, received.length);
    state.msgBuf = buffer;
  };
}
