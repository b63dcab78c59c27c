import { isIP, type Socket } from 'node:net';
import { isToolError, ToolError } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import ipaddr from 'ipaddr.js';
import { buildConnector } from 'undici';
import type { AddressGuard } from './address-guard.js';
import type { ConnectionSlots } from './connection-pools.js';
import { refusal } from './errors.js';
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

/** One connection to open: the address is the checked one; the name is for TLS only. */
export interface DialTarget {
  address: string;
  port: number;
  protocol: 'http:' | 'https:';
  /** TLS server name and certificate name. */
  host: string;
  timeoutMs: number;
}

/** Opens a socket, TLS handshake included. Tests inject their own. */
export abstract class Dialer {
  abstract dial(target: DialTarget): Promise<Socket>;
}

/** Dials for real and checks afterwards that the peer is the address that was asked for. */
export class SystemDialer extends Dialer {
  /** @param ca additional certificate authorities (PEM) beside the system's */
  constructor(private readonly ca?: string | string[]) {
    super();
  }

  private readonly connectors = new Map<number, buildConnector.connector>();

  override dial(target: DialTarget): Promise<Socket> {
    const connectSocket = this.connectorFor(target.timeoutMs);
    return new Promise((resolve, reject) => {
      const tls = target.protocol === 'https:';
      connectSocket(
        {
          hostname: target.address,
          host: target.host,
          protocol: target.protocol,
          port: String(target.port),
          // An IP literal is no legal server name (RFC 6066); node falls back to the address for the certificate check.
          ...(tls && !ipaddr.isValid(target.host) ? { servername: target.host } : {}),
        },
        (error, socket) => {
          if (error || !socket) return reject(error ?? new Error('no socket'));
          if (!sameAddress(socket.remoteAddress, target.address)) {
            socket.destroy();
            return reject(refusal('connect', 'address', target.host));
          }
          resolve(socket);
        },
      );
    });
  }

  private connectorFor(timeoutMs: number): buildConnector.connector {
    let connector = this.connectors.get(timeoutMs);
    if (!connector) {
      // HTTP/1.1 only: one request per connection keeps byte caps, timeouts and cancellation per request.
      connector = buildConnector({ timeout: timeoutMs, allowH2: false, ...(this.ca ? { ca: this.ca } : {}) });
      this.connectors.set(timeoutMs, connector);
    }
    return connector;
  }
}

function sameAddress(actual: string | undefined, wanted: string): boolean {
  if (actual === undefined || !ipaddr.isValid(actual)) return false;
  return ipaddr.process(actual).toNormalizedString() === ipaddr.process(wanted).toNormalizedString();
}
