import { isToolError, ToolError } from '@toolfleet/contracts';

/**
 * What a store answered. A store that is away is a clear error and no fault of the fleet; what its client says stays inside.
 * @throws ToolError SERVICE_UNAVAILABLE, or the store's own ToolError
 */
export async function reached<T>(what: string, asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch (cause) {
    if (isToolError(cause)) throw cause;
    throw new ToolError('SERVICE_UNAVAILABLE', { message: `${what} cannot be reached at the moment`, cause });
  }
}
