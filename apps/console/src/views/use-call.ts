import type { CallBody, JsonObject, ToolCallError } from '@toolfleet/client';
import { useEffect, useRef, useState } from 'react';
import { useSigned } from '../session.js';
import { asToolError } from '../use-query.js';

export type CallMode = 'run' | 'dry' | 'async';

/** A call made from this page. */
export type CallState =
  | { phase: 'idle' }
  | { phase: 'running'; callId?: string; progress: readonly string[] }
  | { phase: 'refused'; error: ToolCallError }
  | { phase: 'ended'; body: CallBody; status?: string; tookMs: number };

/** Calls one tool, one call at a time. Leaving the page cancels a synchronous call; a background call keeps running. */
export function useCall(tool: string): {
  state: CallState;
  run: (args: JsonObject, mode: CallMode, session?: string) => Promise<void>;
  cancel: () => void;
} {
  const { api } = useSigned();
  const [state, setState] = useState<CallState>({ phase: 'idle' });
  const controller = useRef<AbortController>(undefined);
  const background = useRef<string>(undefined);
  useEffect(() => () => controller.current?.abort(), []);

  const run = async (args: JsonObject, mode: CallMode, session = '') => {
    controller.current?.abort();
    const { signal } = (controller.current = new AbortController());
    background.current = undefined;
    const show = (next: CallState) => !signal.aborted && setState(next);
    const startedAt = performance.now();
    setState({ phase: 'running', progress: [] });
    try {
      const body = {
        arguments: args,
        dry_run: mode === 'dry' || undefined,
        mode: mode === 'async' ? mode : undefined,
        session_id: session || undefined,
      };
      const answer = await api.call(tool, body, signal);
      if ('success' in answer)
        return void show({ phase: 'ended', body: answer, tookMs: performance.now() - startedAt });
      const { call_id: callId } = answer;
      background.current = callId;
      const progress: string[] = [];
      show({ phase: 'running', callId, progress });
      for await (const event of api.events(`/api/v1/calls/${encodeURIComponent(callId)}/events`, signal)) {
        if (event.type === 'progress') progress.push(progressText(event.data));
        if (event.type === 'done') break;
        show({ phase: 'running', callId, progress: progress.slice(-20) });
      }
      const ended = await api.asyncCall(callId, signal);
      if (ended.result)
        show({ phase: 'ended', body: ended.result, status: ended.status, tookMs: performance.now() - startedAt });
      else show({ phase: 'idle' });
    } catch (thrown) {
      show({ phase: 'refused', error: asToolError(thrown) });
    }
  };

  const cancel = () => {
    // A cancelled background call still ends with an outcome, which is then shown. A synchronous one ends with its request.
    if (background.current !== undefined) void api.cancelCall(background.current).catch(() => undefined);
    else {
      controller.current?.abort();
      setState({ phase: 'idle' });
    }
  };
  return { state, run, cancel };
}

function progressText(data: string): string {
  const { message, progress, total } = JSON.parse(data) as { message?: string; progress?: number; total?: number };
  const share = progress === undefined ? '' : total === undefined ? String(progress) : `${progress} of ${total}`;
  return [share, message].filter(Boolean).join(' · ');
}
