import type { Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import { StartRefused, type ServicePart } from './service-part.js';

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 2_000;
/** Faults of our own code or of this machine: repeating the start cannot repair them. */
const HOPELESS_CODES = new Set([
  'EADDRINUSE',
  'EACCES',
  'EADDRNOTAVAIL',
  'ERR_MODULE_NOT_FOUND',
  'NOAUTH',
  'WRONGPASS',
]);

/** Runs `attempt` until it succeeds; each failure is one line in the log. Rejects on hopeless faults and when `stopped`. */
export async function startWithRetry(
  what: string,
  attempt: () => Promise<void>,
  { clock, logger, stopped }: { clock: Clock; logger: Logger; stopped: AbortSignal },
): Promise<void> {
  for (let tries = 1; ; tries++) {
    stopped.throwIfAborted();
    try {
      await attempt();
      if (tries > 1) logger.info({ part: what, tries }, `${what} is there`);
      return;
    } catch (error) {
      if (isHopeless(error)) throw error;
      const waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
      logger.warn({ part: what, tries, retry_in_ms: waitMs }, `waiting for ${what}: ${oneLine(error)}`);
      await clock.sleep(waitMs, stopped);
    }
  }
}

/** Starts the parts one after the other. */
export async function startParts(
  parts: readonly ServicePart[],
  tools: { clock: Clock; logger: Logger; stopped: AbortSignal },
  onStarted: (part: ServicePart) => void,
): Promise<void> {
  for (const part of parts) {
    if (part.start) await startWithRetry(part.name, () => part.start?.() ?? Promise.resolve(), tools);
    onStarted(part);
  }
}

/** True for faults that a repeated start cannot repair. */
export function isHopeless(error: unknown): boolean {
  if (error instanceof StartRefused) return true;
  if (typeof error !== 'object' || error === null) return false;
  if ('startRefused' in error && error.startRefused === true) return true;
  if ('code' in error && HOPELESS_CODES.has(String(error.code))) return true;
  if ('code' in error) return false;
  return error instanceof TypeError || error instanceof ReferenceError || error instanceof SyntaxError;
}

/** An error as one line, with its cause when the message alone says little. */
export function oneLine(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const nested = error instanceof AggregateError ? error.errors[0] : error.cause;
  // Some errors of sockets have a code and no message.
  const head = error.message || ('code' in error ? String(error.code) : error.name);
  const cause = nested instanceof Error && nested.message !== error.message ? `: ${oneLine(nested)}` : '';
  return `${head}${cause}`.replace(/\s+/g, ' ').trim();
}
