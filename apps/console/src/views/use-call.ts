import { ToolCallError, type JsonObject } from '@toolfleet/client';
import { useEffect, useRef, useState } from 'react';
import { RUN_TIMEOUT_MS } from '../api/client.js';
import { asToolError } from '../api/queries.js';
import { useSigned } from '../session.js';
import type { OutcomeState } from './follow-call.js';

/** `background`: durable, with its own page. `wait`: ends with this page. `dry`: checks and prices, runs nothing. */
export type RunMode = 'background' | 'wait' | 'dry';

/** Calls one tool, one call at a time. Leaving the page cancels a call that it waits for, and no call in the background. */
export function useCall(tool: string): {
  /** Of a call that this page waits for, and of one that was refused. */
  state: OutcomeState;
  /** @returns the id of a call that was accepted to run in the background */
  run: (args: JsonObject, mode: RunMode, session?: string) => Promise<string | undefined>;
  cancel: () => void;
} {
  const { api } = useSigned();
  const [state, setState] = useState<OutcomeState>({ phase: 'idle' });
  const controller = useRef<AbortController>(undefined);
  useEffect(() => () => controller.current?.abort(), []);

  const run = async (args: JsonObject, mode: RunMode, session = '') => {
    controller.current?.abort();
    const { signal } = (controller.current = new AbortController());
    const show = (next: OutcomeState) => !signal.aborted && setState(next);
    const startedAt = performance.now();
    setState({ phase: 'running', progress: [] });
    const body = {
      arguments: args,
      dry_run: mode === 'dry' || undefined,
      mode: mode === 'background' ? ('async' as const) : undefined,
      session_id: session || undefined,
    };
    try {
      // Aborting closes the request and cancels the call.
      const answer = await api.request('POST /api/v1/tools/{name}/execute', {
        path: { name: tool },
        body,
        signal,
        timeoutMs: RUN_TIMEOUT_MS,
      });
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
