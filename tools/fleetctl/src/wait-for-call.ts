import type { CallBody, CallState } from '@toolfleet/contracts';
import { CliError } from './cli-error.js';
import { followEvents } from './follow-events.js';
import type { Gateway } from './gateway.js';
import type { Progress } from './progress-line.js';
import { shellWord } from './shell-words.js';

/** State of an asynchronous call, as `GET /api/v1/calls/:id` tells it. */
export interface CallStatus {
  call_id: string;
  state?: CallState;
  status?: string;
  progress?: Progress;
  result?: CallBody;
}

/** States of a call that has not ended. */
export const UNFINISHED: ReadonlySet<string> = new Set(['accepted', 'claimed', 'running', 'waiting', 'queued']);
const FIRST_WAIT_MS = 150;
const LONGEST_WAIT_MS = 2_000;
const NEWS_LAG_MS = 50;

/** Follows a call until it has ended; asks less and less often. @throws CliError when it ended without a result */
export async function waitForCall(
  gateway: Gateway,
  callId: string,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<CallBody> {
  const following = new AbortController();
  const done = followEvents(gateway, callId, AbortSignal.any([signal, following.signal]), onProgress);
  try {
    return await askUntilEnded(gateway, callId, signal, onProgress, done);
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new CliError(`Interrupted; the call goes on: fleetctl jobs ${shellWord(callId)} --watch`, 130);
  } finally {
    following.abort();
  }
}

async function askUntilEnded(
  gateway: Gateway,
  callId: string,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
  done: Promise<boolean>,
): Promise<CallBody> {
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 1.5, LONGEST_WAIT_MS)) {
    const path = `/api/v1/calls/${encodeURIComponent(callId)}`;
    const { body } = await gateway.ask<CallStatus & Partial<CallBody>>('GET', path, undefined, signal);
    if (body.result) return body.result;
    if (typeof body.success === 'boolean') return body as CallBody;
    const state = body.state ?? body.status ?? 'unknown';
    if (!UNFINISHED.has(state)) throw new CliError(`The call ended: ${state} (call_id ${callId})`);
    if (body.progress) onProgress(body.progress);
    await Promise.race([pause(waitMs, signal), news(done)]);
  }
}

/** Resolves shortly after the stream said that the call is done; the record may lag behind its event. Else never. */
async function news(done: Promise<boolean>): Promise<void> {
  if (!(await done)) await new Promise<never>(() => {});
  await new Promise((resolve) => setTimeout(resolve, NEWS_LAG_MS));
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
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
