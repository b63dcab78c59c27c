import type { Socket } from 'node:net';
import { isIP } from 'node:net';
import { isToolError, ToolError } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { buildConnector } from 'undici';
import type { AddressGuard } from './address-guard.js';
import type { ConnectionSlots } from './connection-slots.js';
import type { Dialer } from './dialer.js';
import { refusal } from './refusal.js';
import type { CachingResolver } from './resolver.js';
import type { GuardedUrl } from './url-guard.js';

/** Parts of a connector. */
export interface ConnectorParts {
  resolver: CachingResolver;
  guard: AddressGuard;
  dialer: Dialer;
  slots: ConnectionSlots;
  clock: Clock;
  /** Resolving, waiting for a free connection and the handshake together. */
  connectTimeoutMs: number;
}

/** Addresses of one name tried at most, one after the other. */
const MAX_ADDRESSES = 3;

/**
 * The connector of one origin: resolve, check every answer, dial a checked address. It is a connector and
 * not a `lookup` hook, because undici never calls that hook for hosts that are IP literals.
 */
export function guardedConnector(target: GuardedUrl, parts: ConnectorParts): buildConnector.connector {
  return (_options, report) => {
    connect(target, parts).then(
      (socket) => report(null, socket),
      (error: unknown) => report(error instanceof Error ? error : new Error(String(error)), null),
    );
  };
}

async function connect(target: GuardedUrl, parts: ConnectorParts): Promise<Socket> {
  const giveUp = new AbortController();
  const cancelTimer = parts.clock.after(parts.connectTimeoutMs, () =>
    giveUp.abort(
      new ToolError('ATTEMPT_TIMED_OUT', {
        message: `No connection to ${target.host} within ${parts.connectTimeoutMs} ms`,
        details: { phase: 'connect', delivered: false, host: target.host },
      }),
    ),
  );
  try {
    const addresses = await orAborted(resolveChecked(target, parts), giveUp.signal);
    const release = await parts.slots.take(giveUp.signal);
    try {
      const socket = await dialOneOf(addresses, target, parts, giveUp.signal);
      socket.once('close', release);
      if (socket.destroyed) release();
      return socket;
    } catch (error) {
      release();
      throw error;
    }
  } finally {
    cancelTimer();
  }
}

/** Resolves a host and checks every address. Origins listed as allowed endpoints may be private, but must be addresses. */
async function resolveChecked(target: GuardedUrl, parts: ConnectorParts): Promise<string[]> {
  let addresses: string[];
  try {
    addresses = await parts.resolver.resolve(target.host);
  } catch (error) {
    throw unresolved(target.host, error);
  }
  if (addresses.length === 0) throw unresolved(target.host);
  if (!addresses.every((address) => isIP(address) !== 0)) throw refusal('connect', 'address', target.host);
  if (!target.exempt) parts.guard.assertAllPublic(target.host, addresses);
  return addresses;
}

async function dialOneOf(
  addresses: readonly string[],
  target: GuardedUrl,
  parts: ConnectorParts,
  signal: AbortSignal,
): Promise<Socket> {
  let last: unknown;
  for (const address of addresses.slice(0, MAX_ADDRESSES)) {
    // Rule 10: what is dialled is checked here again, whatever happened to the list before.
    if (!target.exempt) parts.guard.assertAllPublic(target.host, [address]);
    const dialled = parts.dialer.dial({
      address,
      port: target.port,
      protocol: target.protocol,
      host: target.host,
      timeoutMs: parts.connectTimeoutMs,
    });
    // A socket that opens after we gave up must not stay behind.
    signal.addEventListener('abort', () => void dialled.then((socket) => socket.destroy()).catch(() => undefined), {
      once: true,
    });
    try {
      return await orAborted(dialled, signal);
    } catch (error) {
      if (isToolError(error)) throw error;
      last = error;
    }
  }
  parts.resolver.forget(target.host);
  throw last;
}

function unresolved(host: string, cause?: unknown): ToolError {
  return new ToolError('NETWORK_ERROR', {
    message: `The name ${host} does not resolve`,
    details: { reason: 'dns', delivered: false, host },
    cause,
  });
}

function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
