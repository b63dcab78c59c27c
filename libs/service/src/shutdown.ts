import type { Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import { oneLine } from './start-parts.js';
import type { LifecycleComponent } from './service-part.js';

/** Longest time closing may take once work is drained. */
const STOP_TIMEOUT_MS = 3_000;

/**
 * Drains parts in reverse order within `drainMs` in all, then stops them in reverse order. A part that fails or hangs is
 * logged and never keeps the others from being drained and stopped.
 */
export async function drainAndStop(
  parts: readonly LifecycleComponent[],
  { clock, logger, drainMs }: { clock: Clock; logger: Logger; drainMs: number },
): Promise<void> {
  const reversed = parts.toReversed();
  const until = clock.monotonic() + drainMs;
  for (const part of reversed) {
    if (!part.drain) continue;
    const left = until - clock.monotonic();
    const done = await within(
      clock,
      left,
      () => part.drain?.(),
      (error) => {
        logger.error({ part: part.name, error }, `${part.name} failed while draining: ${oneLine(error)}`);
      },
    );
    if (!done) logger.warn({ part: part.name }, `${part.name} did not drain in time`);
  }
  const stopUntil = clock.monotonic() + STOP_TIMEOUT_MS;
  for (const part of reversed) {
    if (!part.stop) continue;
    const left = Math.max(100, stopUntil - clock.monotonic());
    const done = await within(
      clock,
      left,
      () => part.stop?.(),
      (error) => {
        logger.warn({ part: part.name }, `${part.name} failed while stopping: ${oneLine(error)}`);
      },
    );
    if (!done) logger.warn({ part: part.name }, `${part.name} did not stop in time`);
  }
}

/** True when `work` settled within `ms`; its failure goes to `failed`. */
async function within(
  clock: Clock,
  ms: number,
  work: () => Promise<void> | undefined,
  failed: (error: unknown) => void,
): Promise<boolean> {
  let cancel = (): void => undefined;
  const late = new Promise<false>((resolve) => {
    cancel = clock.after(Math.max(0, ms), () => resolve(false));
  });
  const done = (async () => {
    try {
      await work();
    } catch (error) {
      failed(error);
    }
    return true;
  })();
  const result = await Promise.race([done, late]);
  cancel();
  return result;
}
