import { isIP, type Socket } from 'node:net';
import { isCodedError, CodedError, type Clock } from '@toolfleet/base';
import ipaddr from 'ipaddr.js';
import { buildConnector } from 'undici';
import type { AddressGuard } from './address-guard.js';
import { refusal } from './errors.js';
import type { CachingResolver } from './resolver.js';
import type { GuardedUrl } from './url-guard.js';

/** Limits the open sockets of all origins together; further ones wait in order of arrival. */
export class ConnectionSlots {
  private open = 0;
  private readonly waiting: (() => void)[] = [];

  /** @param onFull called whenever a connection has to wait, so that idle sockets can be closed */
  constructor(
    private readonly total: number,
    private readonly onFull: () => void,
  ) {}

  /** Resolves to the function that releases the slot; calling it again has no effect. Rejects with the signal's reason. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.open >= this.total) {
      this.onFull();
      await this.waitForSlot(signal);
    } else {
      this.open += 1;
    }
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const next = this.waiting.shift();
      // Hand the slot straight to the next waiter; freeing it first would let a newcomer overtake.
      if (next) next();
      else this.open -= 1;
    };
  }

  /** Sockets open or being opened. */
  get inUse(): number {
    return this.open;
  }

  private waitForSlot(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const admitted = () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      const onAbort = () => {
        this.waiting.splice(this.waiting.indexOf(admitted), 1);
        reject(signal.reason);
      };
      this.waiting.push(admitted);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }
}

/** Dependencies of a connector. */
export interface ConnectorDeps {
  resolver: CachingResolver;
  guard: AddressGuard;
  dialer: Dialer;
  slots: ConnectionSlots;
  clock: Clock;
  /** Limit for resolving, waiting for a slot and the handshake together. */
  connectTimeoutMs: number;
}

/** Maximum number of addresses of one name that are tried, one after the other. */
const MAX_ADDRESSES = 3;

/**
 * The undici connector of one origin: resolves the host, checks every address, dials a checked address. A `lookup` hook
 * would not do, because undici never calls it for hosts that are IP literals.
 */
export function guardedConnector(target: GuardedUrl, deps: ConnectorDeps): buildConnector.connector {
  return (_options, report) => {
    connect(target, deps).then(
      (socket) => report(null, socket),
      (error: unknown) => report(error instanceof Error ? error : new Error(String(error)), null),
    );
  };
}

async function connect(target: GuardedUrl, deps: ConnectorDeps): Promise<Socket> {
  const giveUp = new AbortController();
  const cancelTimer = deps.clock.after(deps.connectTimeoutMs, () =>
    giveUp.abort(
      new CodedError('ATTEMPT_TIMED_OUT', {
        message: `Connecting to ${target.host} took longer than ${deps.connectTimeoutMs} ms`,
        details: { phase: 'connect', host: target.host },
        facts: { delivered: false },
      }),
    ),
  );
  try {
    const addresses = await orAborted(resolveChecked(target, deps), giveUp.signal);
    const release = await deps.slots.take(giveUp.signal);
    try {
      const socket = await dialFirst(addresses, target, deps, giveUp.signal);
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

/**
 * Resolves a host and checks every address. Exempt origins (`allowedEndpoints`) may resolve to private addresses.
 * @throws CodedError EGRESS_REFUSED, or NETWORK_ERROR with reason `dns`
 */
async function resolveChecked(target: GuardedUrl, deps: ConnectorDeps): Promise<string[]> {
  let addresses: string[];
  try {
    addresses = await deps.resolver.resolve(target.host);
  } catch (error) {
    throw unresolvable(target.host, error);
  }
  if (addresses.length === 0) throw unresolvable(target.host);
  if (!addresses.every((address) => isIP(address) !== 0)) throw refusal('connect', 'address', target.host);
  if (!target.exempt) deps.guard.assertAllPublic(target.host, addresses);
  return addresses;
}

/** The first address that answers. @throws the failure of the last address tried */
async function dialFirst(
  addresses: readonly string[],
  target: GuardedUrl,
  deps: ConnectorDeps,
  signal: AbortSignal,
): Promise<Socket> {
  let last: unknown;
  for (const address of addresses.slice(0, MAX_ADDRESSES)) {
    // Check the address that is dialed, so that no earlier step, such as the DNS cache, can weaken the guard.
    if (!target.exempt) deps.guard.assertAllPublic(target.host, [address]);
    const dialing = deps.dialer.dial({
      address,
      port: target.port,
      protocol: target.protocol,
      host: target.host,
      timeoutMs: deps.connectTimeoutMs,
    });
    // A socket that opens after the timeout must not leak.
    signal.addEventListener('abort', () => void dialing.then((socket) => socket.destroy()).catch(() => undefined), {
      once: true,
    });
    try {
      return await orAborted(dialing, signal);
    } catch (error) {
      if (isCodedError(error)) throw error;
      last = error;
    }
  }
  deps.resolver.forget(target.host);
  throw last;
}

function unresolvable(host: string, cause?: unknown): CodedError {
  return new CodedError('NETWORK_ERROR', {
    message: `The host name ${host} cannot be resolved`,
    details: { reason: 'dns', host },
    facts: { delivered: false },
    cause,
  });
}

/** Settles like `work`, or rejects with the signal's reason, whichever is first. */
function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** A connection to open: `address` has passed the address guard, `host` is for TLS only. */
export interface DialTarget {
  address: string;
  port: number;
  protocol: 'http:' | 'https:';
  /** Name for SNI and for the check of the certificate. */
  host: string;
  timeoutMs: number;
}

/** Opens sockets, including the TLS handshake. Tests inject their own. */
export abstract class Dialer {
  abstract dial(target: DialTarget): Promise<Socket>;
}

/** Opens real sockets, and checks afterwards that the peer has the requested address. */
export class SystemDialer extends Dialer {
  /** @param ca certificate authorities (PEM) to trust in addition to the system's */
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
          // An IP literal is not a legal server name (RFC 6066, 3); Node then checks the certificate against the address.
          servername: tls && !ipaddr.isValid(target.host) ? target.host : undefined,
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
      // HTTP/1.1 only: with one request per connection, byte limits, timeouts and cancellation apply to that request alone.
      connector = buildConnector({ timeout: timeoutMs, allowH2: false, ca: this.ca });
      this.connectors.set(timeoutMs, connector);
    }
    return connector;
  }
}

function sameAddress(actual: string | undefined, wanted: string): boolean {
  if (actual === undefined || !ipaddr.isValid(actual)) return false;
  return ipaddr.process(actual).toNormalizedString() === ipaddr.process(wanted).toNormalizedString();
}
