import type { ServerContext } from '@modelcontextprotocol/server';
import type { CallProgress } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';

/** A client that counts silence hears from us this often while its call waits or runs. */
const HEARTBEAT_MS = 10_000;

/** Progress of one call on its way to the client. */
export interface ProgressNotes {
  report(progress: CallProgress): void;
  stop(): void;
}

/** Progress notifications of a call that asked for them: those of the tool, and a sign of life in between. */
export function progressTo(context: ServerContext, clock: Clock): ProgressNotes | undefined {
  const progressToken = context.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return undefined;
  let last = 0;
  let cancel = (): void => undefined;
  const report = ({ progress, total, message }: CallProgress): void => {
    // The protocol wants every value larger than the one before.
    last = progress !== undefined && progress > last ? progress : last + 1e-3;
    const params = {
      progressToken,
      progress: last,
      ...(total === undefined ? {} : { total }),
      ...(message ? { message } : {}),
    };
    context.mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined);
    beat();
  };
  const beat = (): void => {
    cancel();
    cancel = clock.after(HEARTBEAT_MS, () => report({}));
  };
  beat();
  return { report, stop: () => cancel() };
}
