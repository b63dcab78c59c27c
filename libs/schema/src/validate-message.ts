import { ToolError, type ErrorCode, type Json, type JsonObject } from '@toolfleet/contracts';
import { compileSchema } from './compile.js';
import { explainErrors } from './explain.js';

/**
 * Validator of messages between processes, compiled at once.
 * @returns a function that gives the message back, typed
 * @throws ToolError (`code`, REQUEST_INVALID unless told) naming every fault; the returned function throws it
 */
export function validateMessage<T>(schema: JsonObject, code: ErrorCode = 'REQUEST_INVALID'): (message: unknown) => T {
  const compiled = compileSchema(schema);
  return (message) => {
    if (compiled.check(message as Json)) return message as T;
    if (message === undefined || message === null) throw new ToolError(code, { message: 'The message is empty' });
    const faults = explainErrors(compiled.errors(message as Json));
    throw new ToolError(code, {
      message: `Invalid message: ${faults.map((fault) => `${fault.path || '/'}: ${fault.message}`).join('; ')}`,
      details: { faults: faults.map((fault) => ({ ...fault })) },
    });
  };
}
