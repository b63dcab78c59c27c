import { ToolError } from '@toolfleet/contracts';
import type { IncomingMessage } from './nats-message.js';
import { errorOfReply } from './wire-error.js';

/** JSON bytes of a body; an absent body is empty. */
export function encode(body: unknown): Uint8Array {
  return body === undefined ? EMPTY : Buffer.from(JSON.stringify(body), 'utf8');
}

/** The reply's value, or throws the error it carries. */
export function decodeReply(message: IncomingMessage): unknown {
  const body = parse(message.data);
  const error = message.headers && errorOfReply(message.headers, body);
  if (error) throw error;
  return body;
}

const EMPTY = new Uint8Array(0);

function parse(data: Uint8Array): unknown {
  if (data.length === 0) return undefined;
  try {
    return JSON.parse(text(data));
  } catch (cause) {
    throw new ToolError('INTERNAL', { message: 'The reply is not JSON', cause });
  }
}

/** The JSON of a message, or undefined when it is empty or not JSON. */
export function parseLenient(data: Uint8Array): unknown {
  try {
    return data.length === 0 ? undefined : JSON.parse(text(data));
  } catch {
    return undefined;
  }
}

/** UTF-8 text of a message. */
export const text = (data: Uint8Array): string =>
  Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('utf8');
