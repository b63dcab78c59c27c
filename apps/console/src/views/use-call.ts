import { ToolCallError, type JsonObject } from '@toolfleet/client';
import { useEffect, useRef, useState } from 'react';
import { useSigned } from '../session.js';
import { asToolError } from '../use-query.js';
import type { CallState } from './follow-call.js';

/** `background`: durable, with its own page. `wait`: ends with this page. `dry`: checks and prices, runs nothing. */
export type CallMode = 'background' | 'wait' | 'dry';

/** Calls one tool, one call at a time. Leaving the page cancels a call that it waits for, and no call in the background. */
export function useCall(tool: string): {
  /** Of a call that this page waits for, and of one that was refused. */
  state: CallState;
  /** @returns the id of a call that was accepted to run in the background */
  run: (args: JsonObject, mode: CallMode, session?: string) => Promise<string | undefined>;
  cancel: () => void;
} {
  const { api } = useSigned();
  const [state, setState] = useState<CallState>({ phase: 'idle' });
  const controller = useRef<AbortController>(undefined);
  useEffect(() => () => controller.current?.abort(), []);

  const run = async (args: JsonObject, mode: CallMode, session = '') => {
    controller.current?.abort();
    const { signal } = (controller.current = new AbortController());
    const show = (next: CallState) => !signal.aborted && setState(next);
    const startedAt = performance.now();
    setState({ phase: 'running', progress: [] });
    try {
      const body = {
        arguments: args,
        dry_run: mode === 'dry' || undefined,
        mode: mode === 'background' ? ('async' as const) : undefined,
        session_id: session || undefined,
      };
      const answer = await api.call(tool, body, signal);
      if ('success' in answer) show({ phase: 'ended', body: answer, tookMs: performance.now() - startedAt });
      else {
        show({ phase: 'idle' });
        return answer.call_id;
      }
    } catch (thrown) {
      show({ phase: 'refused', error: asToolError(thrown) });
    }
    return undefined;
  };

  const cancel = () => {
    controller.current?.abort();
    setState({ phase: 'refused', error: new ToolCallError('CANCELLED', 'Cancelled: the fleet stops the tool') });
  };
  return { state, run, cancel };
}
