import type { IncomingMessage } from 'node:http';
import type { Clock } from '@toolfleet/resilience';

/** How long the connection of a body that is refused stays open. */
const LINGER_MS = 2_000;
/** Node discards the rest of a small body after the answer; the connection stays usable. */
const SMALL_BYTES = 64 * 1024;

/** Whether a request has a body: RFC 9112 section 6.3. */
export function carriesBody({ headers }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined) return true;
  return headers['content-length'] !== undefined && headers['content-length'] !== '0';
}

/** True for requests without a body, too. */
function isSmallBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) <= SMALL_BYTES;
}

/**
 * Leaves the rest of a large body where it is, in the buffers of the network, and closes the connection a little later: the
 * client has read its answer by then. Call it before the answer is sent; small bodies are left to Node, which drops them.
 */
export function leaveUnread(body: IncomingMessage, clock: Clock): void {
  if (isSmallBody(body)) return;
  // Node drops the whole body after the answer unless reading has begun; this reads one buffer and no more.
  body.read(0);
  const cancel = clock.after(LINGER_MS, () => body.socket.destroy());
  body.once('close', cancel);
}

/**
 * Reads and drops what a client still sends, at most for two seconds: an answer before that, followed by the end of the
 * connection, would reach the client as a broken pipe. Nothing is kept.
 */
export async function discardBody(body: IncomingMessage, clock: Clock): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(LINGER_MS, resolve);
  body.once('end', resolve).once('close', resolve).resume();
  if (!body.readableEnded && !body.destroyed) await promise;
  cancel();
}
