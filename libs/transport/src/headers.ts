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

/** Received headers, looked up in their text: a message carries few and is asked for fewer. */
export class HeaderBlock implements IncomingHeaders {
  readonly #text: string;
  #lowerCase: string | undefined;

  constructor(bytes: Uint8Array) {
    this.#text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  }

  /** First value of a header; an empty one counts as absent. */
  get(name: string): string | undefined {
    let at = this.#text.indexOf(`\r\n${name}:`);
    if (at < 0) {
      this.#lowerCase ??= this.#text.toLowerCase();
      // Lengths differ for a few letters outside ASCII; names of headers are ASCII and come before their values.
      at = this.#lowerCase.length === this.#text.length ? this.#lowerCase.indexOf(`\r\n${name.toLowerCase()}:`) : -1;
      if (at < 0) return undefined;
    }
    const start = at + name.length + 3;
    const end = this.#text.indexOf('\r\n', start);
    return this.#text.slice(start, end < 0 ? undefined : end).trim() || undefined;
  }
}
