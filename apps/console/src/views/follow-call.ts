import { FINAL_STATUSES, ToolCallError, type CallBody, type CallStatus } from '@toolfleet/client';
import { useEffect, useState } from 'react';
import { useSigned } from '../session.js';
import { asToolError } from '../api/queries.js';

/** A call made from this page, or one that the fleet keeps. */
export type OutcomeState =
  | { phase: 'idle' }
  | { phase: 'running'; callId?: string; progress: readonly string[] }
  | { phase: 'refused'; error: ToolCallError }
  | { phase: 'withheld'; status: string; why: string; show: (() => void) | undefined }
  | { phase: 'ended'; body: CallBody; tookMs?: number };

/** The known state of a call that the fleet keeps. */
interface FollowedCall {
  /** Undefined until it is loaded, and when the fleet does not keep it. */
  call: CallStatus | undefined;
  /** Its last progress reports. */
  progress: readonly string[];
  error: ToolCallError | undefined;
  /** Reads the result of another caller's call (recorded); absent where there is none to read. */
  show?: () => void;
}

/** Leaves out results of other callers, because reading them is recorded. */
const OWN = { content: 'own' } as const;
const NOTHING: FollowedCall = { call: undefined, progress: [], error: undefined };
const MOST_PROGRESS = 20;
/** Wait before a stream that was lost is opened again. */
const AGAIN_MS = 2_000;

/** Follows a call to its end, also one that has ended before. Without an id it follows none. Leaving does not cancel the call. */
export function useFollowedCall(id: string | undefined): FollowedCall {
  const { api } = useSigned();
  const [followed, setFollowed] = useState(NOTHING);
  useEffect(() => {
    setFollowed(NOTHING);
    if (id === undefined) return undefined;
    const controller = new AbortController();
    const { signal } = controller;
    const show = (news: Partial<FollowedCall>) => !signal.aborted && setFollowed((old) => ({ ...old, ...news }));
    void (async () => {
      while (!signal.aborted) {
        try {
          const call = await api.request('GET /api/v1/calls/{id}', { path: { id }, query: OWN, signal });
          show({ call, error: undefined });
          if (FINAL_STATUSES.has(call.status)) return;
          const progress: string[] = [];
          for await (const event of api.events('GET /api/v1/calls/{id}/events', { path: { id }, query: OWN, signal })) {
            if (event.type === 'done') break;
            if (event.type !== 'progress') continue;
            const text = progressText(event.data);
            if (text !== '') progress.push(text);
            show({ progress: progress.slice(-MOST_PROGRESS) });
          }
        } catch (thrown) {
          const error = asToolError(thrown);
          show({ error });
          if (error.status >= 400 && error.status < 500) return;
          await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        }
      }
    })();
    return () => controller.abort();
  }, [api, id]);
  const read = () => {
    const shown = api.request('GET /api/v1/calls/{id}', { path: { id: id! } }).then((call) => ({ call }));
    void shown
      .catch((error: unknown) => ({ error: asToolError(error) }))
      .then((news) => setFollowed({ ...NOTHING, ...news }));
  };
  return followed.call?.result_omitted?.reason === 'recorded' ? { ...followed, show: read } : followed;
}

/** The state of a followed call as `CallOutcome` shows it. */
export function toOutcome({ call, progress, error, show }: FollowedCall): OutcomeState {
  if (!call) return error ? { phase: 'refused', error } : { phase: 'idle' };
  const { call_id: callId, status, result, result_omitted: omitted } = call;
  if (result) return { phase: 'ended', body: result };
  if (!FINAL_STATUSES.has(status)) return { phase: 'running', callId, progress };
  if (omitted) return { phase: 'withheld', status, why: omitted.message, show };
  return { phase: 'refused', error: new ToolCallError('NOT_FOUND', `The call ended without a result: ${status}`) };
}

function progressText(data: string): string {
  const { message, progress, total } = JSON.parse(data) as { message?: string; progress?: number; total?: number };
  const share = progress === undefined ? '' : total === undefined ? String(progress) : `${progress} of ${total}`;
  return [share, message].filter(Boolean).join(' · ');
}
