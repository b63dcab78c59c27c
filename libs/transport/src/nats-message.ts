import type { Msg } from 'nats';
import { HeaderBlock, type IncomingHeaders } from './headers.js';

/** A received message. */
export interface IncomingMessage {
  readonly subject: string;
  /** Subject to answer on; empty when no answer is expected. */
  readonly reply: string;
  readonly headers: IncomingHeaders | undefined;
  readonly data: Uint8Array;
  /** 503 without a body is the server's "nobody listens". */
  readonly isNoResponders: boolean;
}

/** The package's message behind our interface; headers are read only when asked for. */
export class NatsMessage implements IncomingMessage {
  #headers: IncomingHeaders | undefined;

  constructor(private readonly message: Msg) {}

  get subject(): string {
    return this.message.subject;
  }

  get reply(): string {
    return this.message.reply ?? '';
  }

  get data(): Uint8Array {
    return this.message.data;
  }

  get headers(): IncomingHeaders | undefined {
    return (this.#headers ??= headersOf(this.message));
  }

  get isNoResponders(): boolean {
    return this.message.data.length === 0 && this.message.headers?.code === 503;
  }
}

/**
 * The package decodes all headers into a map of lists per message; we look up two or three. Its raw bytes are not public,
 * so their absence in another version falls back to its own decoding.
 */
function headersOf(message: Msg): IncomingHeaders | undefined {
  const { _msg: frame, _rdata: bytes } = message as unknown as { _msg?: { hdr?: number }; _rdata?: Uint8Array };
  if (typeof frame?.hdr === 'number' && bytes instanceof Uint8Array) {
    return frame.hdr > 0 ? new HeaderBlock(bytes.subarray(0, frame.hdr)) : undefined;
  }
  const { headers } = message;
  return headers && { get: (name) => headers.get(name) || undefined };
}
