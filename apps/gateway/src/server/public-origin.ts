import type { IncomingMessage } from 'node:http';
import { isDevelopment } from '@toolfleet/contracts';
import { hostName, LOOPBACK_NAMES } from '@toolfleet/access';

/** Where clients reach this gateway. */
export interface PublicAddress {
  /** `GATEWAY_PUBLIC_URL`. */
  publicUrl?: string | undefined;
  /** Without it, the address may be a loopback one. */
  development?: boolean | undefined;
}

/**
 * The address of this gateway without a trailing slash, for links that are made without a request; undefined if it is not known. In
 * development it is this machine's.
 */
export function knownBase(settings: {
  GATEWAY_PUBLIC_URL?: string | undefined;
  GATEWAY_PORT: number;
  ENVIRONMENT: string;
}): string | undefined {
  const { GATEWAY_PUBLIC_URL: publicUrl, GATEWAY_PORT: port, ENVIRONMENT: environment } = settings;
  if (publicUrl !== undefined) return publicUrl.replace(/\/+$/, '');
  return isDevelopment(environment) && port !== 0 ? `http://localhost:${port}` : undefined;
}

/**
 * The address of this gateway without a trailing slash. A `Host` header is never repeated: its sender could make a client believe that
 * the fleet is elsewhere. In development it is the loopback name and the port that the request came to.
 */
export function publicBase({ headers, socket }: IncomingMessage, options: PublicAddress): string | undefined {
  if (options.publicUrl !== undefined) return options.publicUrl.replace(/\/$/, '');
  if (!options.development) return undefined;
  const named = hostName(headers.host);
  const name = named !== undefined && LOOPBACK_NAMES.has(named) ? named : 'localhost';
  return `http://${name}:${socket.localPort}`;
}
