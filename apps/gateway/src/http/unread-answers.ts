import type { ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';

/** A client that takes nothing of its answer for so long is cut off: what waits for it is held in memory. */
export const STALLED_MS = 20_000;
/** Shorter answers fit into the buffers of the connection. */
const LARGE = 64 * 1024;

/** Closes connections whose clients stop reading a whole answer. Node restarts the time whenever some of it was taken. */
export function closeStalledAnswers(fastify: FastifyInstance): void {
  fastify.addHook('onSend', async (_request, reply, payload) => {
    const isLarge = (typeof payload === 'string' || Buffer.isBuffer(payload)) && payload.length > LARGE;
    if (isLarge) closeWhenStalled(reply.raw);
    return payload;
  });
}

/** Closes the connection of an answer that was written whole, or is about to be, when its client stops reading. */
export function closeWhenStalled(out: ServerResponse): void {
  const { socket } = out;
  if (!socket || out.writableFinished) return;
  socket.setTimeout(STALLED_MS);
  // Node sets the time of an idle connection by itself; a pipelined request that still runs has none.
  out.once('finish', () => {
    if (socket.timeout === STALLED_MS) socket.setTimeout(0);
  });
}

/** Resolves when the client has taken what was written, or its connection has ended; a stalled one is closed. */
export function drained(out: ServerResponse, stalledMs = STALLED_MS): Promise<void> {
  const { socket } = out;
  if (out.destroyed || !socket || !out.writableNeedDrain) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  // Without a listener for 'timeout' Node destroys the socket.
  socket.setTimeout(stalledMs);
  const done = (): void => {
    out.off('drain', done).off('close', done);
    socket.setTimeout(0);
    resolve();
  };
  out.on('drain', done).on('close', done);
  return promise;
}
