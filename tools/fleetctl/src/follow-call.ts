import { FINAL_STATUSES, type CallProgress, type CallStatus as AsyncCall } from '@toolfleet/client';
import type { CallBody, CallState } from '@toolfleet/contracts';
import { CliError, EXIT } from './cli-error.js';
import type { Gateway } from './gateway.js';
import { shellWord, type Terminal } from './terminal.js';

/** A response of `GET /api/v1/calls/:id`. `state` is accepted as another name of `status`. */
export type CallStatus = Partial<AsyncCall> & { state?: CallState; progress?: CallProgress };

/** A call that has ended. */
interface EndedCall {
  tool?: string | undefined;
  result: CallBody;
}

/** Whether a call has ended. A status that this version does not know is one of a call that goes on. */
export const hasEnded = (state: string): boolean => (FINAL_STATUSES as ReadonlySet<string>).has(state);

export const AWAITING = 'awaiting_approval' satisfies CallState;
const FIRST_WAIT_MS = 150;
const LONGEST_WAIT_MS = 2_000;
const NEWS_LAG_MS = 50;

/**
 * Follows a call until it has ended, by its event stream and by polling at growing intervals. While it waits for an
 * approval, its progress has the command that shows the approval.
 * @returns its result, and its tool where the gateway names it
 * @throws CliError when it ended without a result, its result is for others, or it was interrupted
 */
export async function waitForCall(
  gateway: Gateway,
  callId: string,
  signal: AbortSignal,
  onProgress: (progress: CallProgress) => void,
): Promise<EndedCall> {
  const following = new AbortController();
  const done = followEvents(gateway, callId, AbortSignal.any([signal, following.signal]), onProgress);
  try {
    return await pollUntilEnded(gateway, callId, signal, onProgress, done);
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new CliError(`Interrupted; the call continues: fleetctl calls show ${shellWord(callId)} --watch`, 130);
  } finally {
    following.abort();
  }
}

async function pollUntilEnded(
  gateway: Gateway,
  callId: string,
  signal: AbortSignal,
  onProgress: (progress: CallProgress) => void,
  done: Promise<boolean>,
): Promise<EndedCall> {
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 1.5, LONGEST_WAIT_MS)) {
    const sent = { path: { id: callId }, signal };
    const body: CallStatus & Partial<CallBody> = await gateway.request('GET /api/v1/calls/{id}', sent);
    if (body.result) return { tool: body.tool, result: body.result };
    if (typeof body.success === 'boolean') return { result: body as CallBody };
    const state = body.state ?? body.status;
    if (body.result_omitted?.reason === 'permission' && state !== undefined && hasEnded(state))
      throw new CliError(`The call ended: ${state} (call_id ${callId}). ${body.result_omitted.message}`, EXIT.refused);
    if (state === undefined || hasEnded(state))
      throw new CliError(`The call ended without a result: ${state ?? 'unknown'} (call_id ${callId})`);
    if (body.progress) onProgress(body.progress);
    else if (state === AWAITING) onProgress({ message: `waits for an approval: fleetctl approvals show ${callId}` });
    await Promise.race([pause(waitMs, signal), afterDone(done)]);
  }
}

/** Resolves shortly after the event stream reported the end, because the record may lag behind it. Otherwise never. */
async function afterDone(done: Promise<boolean>): Promise<void> {
  if (!(await done)) await new Promise<never>(() => {});
  await new Promise((resolve) => setTimeout(resolve, NEWS_LAG_MS));
}

/** Rejects when a command is interrupted; never resolves. */
export const interrupted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new CliError('Interrupted', 130)), { once: true });
  });

/** @throws CliError when it is interrupted */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new CliError('Interrupted', 130));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal.addEventListener('abort', stop, { once: true });
  });
}

/**
 * Reads the event stream of a call (`GET /api/v1/calls/:id/events`) and passes on its progress. Errors are ignored: progress is
 * optional, and polling gets the result.
 * @returns true when the call ended, false when the stream ended before
 */
async function followEvents(
  gateway: Gateway,
  callId: string,
  signal: AbortSignal,
  onProgress: (progress: CallProgress) => void,
): Promise<boolean> {
  try {
    for await (const { type, data } of gateway.callEvents(callId, signal)) {
      if (type === 'done') return true;
      if (type === 'progress') onProgress(JSON.parse(data) as CallProgress);
    }
  } catch {
    // A buffering proxy, or the end of the command.
  }
  return false;
}

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const EVERY_MS = 100;
/** Progress is shown only after this time, so that short calls do not flicker. */
const QUIET_MS = 400;
const BAR = 24;

/** A line on standard error with the duration and progress of a call. Shows nothing unless a person watches. */
export class ProgressLine {
  private readonly startedAt = performance.now();
  private readonly timer: NodeJS.Timeout | undefined;
  private latest: CallProgress = {};
  private drawn = false;

  constructor(
    private readonly terminal: Terminal,
    private readonly label: string,
  ) {
    if (terminal.interactive) this.timer = setInterval(() => this.draw(), EVERY_MS);
  }

  update(progress: CallProgress): void {
    this.latest = progress;
  }

  stop(): void {
    clearInterval(this.timer);
    if (this.drawn) this.terminal.status();
  }

  private draw(): void {
    const elapsed = performance.now() - this.startedAt;
    if (elapsed < QUIET_MS) return;
    this.drawn = true;
    const frame = FRAMES[Math.floor(elapsed / EVERY_MS) % FRAMES.length] ?? '';
    this.terminal.status(`${frame} ${this.label} ${(elapsed / 1_000).toFixed(1)} s ${describeProgress(this.latest)}`);
  }
}

/** `[████░░░░] 3/8 reading` */
export function describeProgress({ message, progress, total }: CallProgress): string {
  const parts: string[] = [];
  if (progress !== undefined && total !== undefined && total > 0) {
    const filled = Math.round(Math.min(1, Math.max(0, progress / total)) * BAR);
    parts.push(`[${'█'.repeat(filled)}${'░'.repeat(BAR - filled)}] ${progress}/${total}`);
  } else if (progress !== undefined) parts.push(String(progress));
  if (message) parts.push(message.replaceAll(/\s+/g, ' ').slice(0, 80));
  return parts.join(' ');
}
