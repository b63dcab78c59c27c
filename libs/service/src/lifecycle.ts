import type { Json } from '@toolfleet/contracts';
import { TimedOut, withTimeout, type Clock } from '@toolfleet/resilience';
import type { Logger, Metrics } from '@toolfleet/telemetry';
import type { LocalExchange } from '@toolfleet/transport/local-exchange';
import type { ServiceFaults } from './service-faults.js';
import { classifyStartupError } from './startup-errors.js';

/**
 * Something that a service starts, checks and drains: a broker connection, a server, a worker. Components start in the order given and
 * are drained and stopped in reverse, so list what others depend on first.
 */
export interface LifecycleComponent {
  /** Shown in logs and in `/health/ready`. */
  readonly name: string;
  /** Environment keys of its address and login; the message of a failed start names them. */
  readonly settings?: readonly string[];
  /**
   * Connects or listens. When a dependency cannot be reached, the start is logged in one line and retried with backoff, because brokers
   * may start later than the service. `FatalStartupError` ends the process as a configuration mistake, every other error as a bug.
   */
  start?(): Promise<void> | void;
  /** Whether it can take work now. Called by `/health/ready`; must be cheap, and may take at most one second. */
  ready?(): boolean | Promise<boolean>;
  /** When the certificate or key that it depends on expires; undefined if it uses none, or one without an end. */
  expiresAt?(): Date | undefined;
  /** Stops taking work and finishes work in flight. All components together have `DRAIN_TIMEOUT_MS`. */
  drain?(): Promise<void>;
  /** Closes everything. */
  stop?(): Promise<void>;
}

/** A start that retrying cannot fix: the service logs the message and exits with code 78. */
export class FatalStartupError extends Error {
  /** Errors of libraries below this one carry the same mark. */
  readonly startRefused = true;
}

/** Services of the process for components. */
export interface ServiceHost {
  readonly service: string;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Faults in configuration and policies while the service runs. */
  readonly faults: ServiceFaults;
  /** Set when the process runs several services: hand it to each NATS connection. */
  readonly exchange?: LocalExchange | undefined;
  /** Aborted when draining begins. */
  readonly draining: AbortSignal;
  /** Publishes facts such as `{ port: 8080 }` to the parent process (IPC). */
  announce(facts: Record<string, Json>): void;
  /** Calls `changed` with the new value whenever the `KEY_FILE` of a secret changes. No effect for other sources. */
  onSecretChange(key: string, changed: (value: string) => void): void;
}

const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 2_000;
/** Longest time a component may take to say whether it is ready. */
const READY_TIMEOUT_MS = 1_000;
/** Longest time that closing may take once work is drained. */
const STOP_TIMEOUT_MS = 3_000;

/** What starting components needs. */
interface StartDeps {
  clock: Clock;
  logger: Logger;
  /** Ends the retries. */
  stopped: AbortSignal;
  /** The settings of these keys as text, for the message about a component with a wrong configuration. */
  showSettings: (keys: readonly string[]) => string;
}

/**
 * Starts the components one after the other.
 * @throws FatalStartupError naming the settings to check when the configuration of a component is wrong; any other error of a start
 */
export async function startComponents(
  components: readonly LifecycleComponent[],
  deps: StartDeps,
  onStarted: (component: LifecycleComponent) => void,
): Promise<void> {
  for (const component of components) {
    try {
      await startWithRetry(component, deps);
    } catch (error) {
      if (classifyStartupError(error) !== 'mistake') throw error;
      const check = component.settings ? `; check ${deps.showSettings(component.settings)}` : '';
      const where = error instanceof FatalStartupError ? '' : `${component.name}: `;
      throw new FatalStartupError(`${where}${oneLine(error)}${check}`);
    }
    onStarted(component);
  }
}

/** Retries while the dependency cannot be reached; each failure is one line in the log. */
async function startWithRetry(component: LifecycleComponent, { clock, logger, stopped }: StartDeps): Promise<void> {
  if (!component.start) return;
  const { name } = component;
  for (let tries = 1; ; tries++) {
    stopped.throwIfAborted();
    try {
      await component.start();
      if (tries > 1) logger.info({ part: name, tries }, `${name} is available`);
      return;
    } catch (error) {
      if (classifyStartupError(error) !== 'unreachable') throw error;
      const waitMs = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** (tries - 1));
      logger.warn({ part: name, tries, retry_in_ms: waitMs }, `waiting for ${name}: ${oneLine(error)}`);
      await clock.sleep(waitMs, stopped);
    }
  }
}

/** Checks all components at once. One that throws or takes longer than a second is not ready; a draining service never is. */
export async function checkReady(
  components: readonly LifecycleComponent[],
  state: { started: boolean; draining: boolean; clock: Clock },
): Promise<{ ready: boolean; parts: Record<string, boolean> }> {
  const check = async (component: LifecycleComponent) => {
    const ready = async () => (await component.ready?.()) ?? true;
    const answer = await withTimeout(state.clock, READY_TIMEOUT_MS, ready()).catch(() => false);
    return [component.name, answer === true] as const;
  };
  const answers = await Promise.all(components.map(check));
  const all = answers.every(([, ready]) => ready);
  return { ready: all && state.started && !state.draining, parts: Object.fromEntries(answers) };
}

/**
 * Drains the components in reverse order within `drainMs` altogether, then stops them in reverse order. One that fails or hangs is
 * logged, also when it fails after its time, and does not keep the others from being drained and stopped.
 */
export async function drainAndStop(
  components: readonly LifecycleComponent[],
  { clock, logger, drainMs }: { clock: Clock; logger: Logger; drainMs: number },
): Promise<void> {
  const reversed = components.toReversed();
  const run = async (part: string, activity: string, ms: number, work: () => Promise<void> | undefined) => {
    const logFailure = (error: unknown) =>
      logger.error({ part, error }, `${part} failed to ${activity}: ${oneLine(error)}`);
    const working = (async () => work())();
    try {
      await withTimeout(clock, ms, working);
    } catch (error) {
      if (!(error instanceof TimedOut)) return logFailure(error);
      logger.warn({ part }, `${part} did not ${activity} in time`);
      working.catch(logFailure);
    }
  };
  const drainUntil = clock.monotonic() + drainMs;
  for (const part of reversed) {
    if (part.drain) await run(part.name, 'drain', Math.max(0, drainUntil - clock.monotonic()), () => part.drain?.());
  }
  const stopUntil = clock.monotonic() + STOP_TIMEOUT_MS;
  for (const part of reversed) {
    if (part.stop) await run(part.name, 'stop', Math.max(100, stopUntil - clock.monotonic()), () => part.stop?.());
  }
}

/** An error in one line, with its cause when the message does not include it. */
export function oneLine(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const nested = error instanceof AggregateError ? error.errors[0] : error.cause;
  // Some socket errors have a code and no message.
  const head = error.message || ('code' in error ? String(error.code) : error.name);
  const cause = nested instanceof Error && !error.message.includes(nested.message) ? `: ${oneLine(nested)}` : '';
  return `${head}${cause}`.replace(/\s+/g, ' ').trim();
}
