/** Headers of an outgoing message; values without line breaks. */
export type OutgoingHeaders = Readonly<Record<string, string>>;

/** Headers of a received message. Names match in any case, as in HTTP. */
export interface IncomingHeaders {
  get(name: string): string | undefined;
}

/** A message without headers. */
export const NO_HEADERS: IncomingHeaders = { get: () => undefined };

const VERSION_LINE = 'NATS/1.0\r\n';

/**
 * Encodes headers as NATS/1.0 (ADR-4). Ours are made here and not by the client library because a header object per
 * message costs more than the message. Names and values must not break the line: a value with CR or LF is refused.
 */
export function encodeHeaders(headers: OutgoingHeaders): Uint8Array {
  let block = VERSION_LINE;
  for (const name in headers) {
    const value = headers[name] as string;
    if (/[\r\n]/.test(value)) throw new TypeError(`header ${name} contains a line break`);
    block += `${name}: ${value}\r\n`;
  }
  return Buffer.from(`${block}\r\n`, 'utf8');
}
