import type { Clock } from '@toolfleet/resilience';
import type { LifecycleComponent } from './service-part.js';

/** Longest time one part may take to say whether it is ready. */
const READY_TIMEOUT_MS = 1_000;

/** Asks every part at once. A part that throws or does not answer in a second is not ready; a draining service never is. */
export async function checkReady(
  parts: readonly LifecycleComponent[],
  state: { started: boolean; draining: boolean; clock: Clock },
): Promise<{ ready: boolean; parts: Record<string, boolean> }> {
  const answers = await Promise.all(parts.map(async (part) => [part.name, await ask(part, state.clock)] as const));
  const all = answers.every(([, ready]) => ready);
  return { ready: all && state.started && !state.draining, parts: Object.fromEntries(answers) };
}

async function ask(part: LifecycleComponent, clock: Clock): Promise<boolean> {
  let cancel = (): void => undefined;
  const late = new Promise<boolean>((resolve) => {
    cancel = clock.after(READY_TIMEOUT_MS, () => resolve(false));
  });
  try {
    return await Promise.race([(async () => (await part.ready?.()) ?? true)(), late]);
  } catch {
    return false;
  } finally {
    cancel();
  }
}
