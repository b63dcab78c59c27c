import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** Bounds of what connections may take. */
export interface ConnectionLimits {
  /** Longest time for a whole request to arrive, body included, in ms. */
  requestTimeoutMs: number;
  /** Open connections of this process. */
  maxConnections: number;
  /** Open connections from one address; 0 = no limit, for a proxy that limits by itself. */
  maxConnectionsPerAddress: number;
}

/** Requests whose headers are not complete by then are closed. */
const HEADERS_TIMEOUT_MS = 15_000;
/** How often Node looks for requests that are late. */
const LOOK_MS = 1_000;

/** Options of `http.createServer` for these limits. */
export function serverOptions({ requestTimeoutMs }: ConnectionLimits) {
  return {
    requestTimeout: requestTimeoutMs,
    headersTimeout: Math.min(HEADERS_TIMEOUT_MS, requestTimeoutMs),
    connectionsCheckingInterval: LOOK_MS,
  };
}

/** Closes connections beyond the limits as they arrive: those in use are never the ones that go. */
export function limitConnections(server: Server, limits: ConnectionLimits): void {
  server.maxConnections = limits.maxConnections;
  if (limits.maxConnectionsPerAddress === 0) return;
  const open = new Map<string, number>();
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? '';
    const count = (open.get(address) ?? 0) + 1;
    if (count > limits.maxConnectionsPerAddress) return void socket.destroy();
    open.set(address, count);
    socket.once('close', () => {
      const left = open.get(address)! - 1;
      if (left > 0) open.set(address, left);
      else open.delete(address);
    });
  });
}
