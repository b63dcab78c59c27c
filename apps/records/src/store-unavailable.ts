import { ToolError, type ErrorCode } from '@toolfleet/contracts';

/** The message of failures of the store. */
export const STORE_UNAVAILABLE = 'The store of calls is unavailable; retry later';

const OF_THE_REQUEST: ReadonlySet<ErrorCode> = new Set(['REQUEST_INVALID', 'NOT_FOUND']);

/** Work on the store; what fails for another reason than the request is SERVICE_UNAVAILABLE. */
export const orUnavailable = <T>(work: Promise<T>): Promise<T> =>
  work.catch((cause: unknown) => {
    if (cause instanceof ToolError && OF_THE_REQUEST.has(cause.code)) throw cause;
    throw new ToolError('SERVICE_UNAVAILABLE', { message: STORE_UNAVAILABLE, cause });
  });
