import { ProtocolError } from '@modelcontextprotocol/server';
import { toToolError } from '@toolfleet/contracts';

/** JSON-RPC code of failures that the protocol has no code for. */
export const SERVER_ERROR = -32_000;

/** An error of the fleet as one of JSON-RPC, with its code in `data`. */
export function toRpcRefusal(error: unknown): ProtocolError {
  const { code, message } = toToolError(error);
  return new ProtocolError(SERVER_ERROR, message, { code });
}

/** @throws ProtocolError in place of any other error */
export function orRpcError<T>(done: Promise<T>): Promise<T> {
  return done.catch((error: unknown) => {
    throw toRpcRefusal(error);
  });
}
