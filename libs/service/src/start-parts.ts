import type { Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import { startFault } from './start-faults.js';
import { FatalStartupError, type LifecycleComponent } from './service-part.js';

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 2_000;
/** Runs `attempt` until its dependency is reached; each failure is one line in the log. Rejects on all others and when `stopped`. */
async function startWithRetry(
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
      if (startFault(error) !== 'unreachable') throw error;
      const waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
      logger.warn({ part: what, tries, retry_in_ms: waitMs }, `waiting for ${what}: ${oneLine(error)}`);
      await clock.sleep(waitMs, stopped);
    }
  }
}

/**
 * Starts the parts one after the other.
 * @param settingsOf the settings of these keys as text, for the message of a part whose configuration is wrong
 */
export async function startParts(
  parts: readonly LifecycleComponent[],
  tools: { clock: Clock; logger: Logger; stopped: AbortSignal; settingsOf: (keys: readonly string[]) => string },
  onStarted: (part: LifecycleComponent) => void,
): Promise<void> {
  for (const part of parts) {
    try {
      if (part.start) await startWithRetry(part.name, () => part.start?.() ?? Promise.resolve(), tools);
    } catch (error) {
      if (startFault(error) !== 'mistake') throw error;
      const check = part.settings ? `; check ${tools.settingsOf(part.settings)}` : '';
      const where = error instanceof FatalStartupError ? '' : `${part.name}: `;
      throw new FatalStartupError(`${where}${oneLine(error)}${check}`);
    }
    onStarted(part);
  }
}

/** An error as one line, with its cause when the message alone says little. */
export function oneLine(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const nested = error instanceof AggregateError ? error.errors[0] : error.cause;
  // Some errors of sockets have a code and no message.
  const head = error.message || ('code' in error ? String(error.code) : error.name);
  const cause = nested instanceof Error && !error.message.includes(nested.message) ? `: ${oneLine(nested)}` : '';
  return `${head}${cause}`.replace(/\s+/g, ' ').trim();
}
