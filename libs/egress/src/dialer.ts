import type { Socket } from 'node:net';
import ipaddr from 'ipaddr.js';
import { buildConnector } from 'undici';
import { refusal } from './refusal.js';

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
    const connect = this.connectorFor(target.timeoutMs);
    return new Promise((resolve, reject) => {
      const tls = target.protocol === 'https:';
      connect(
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
