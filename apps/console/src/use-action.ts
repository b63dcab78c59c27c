import type { ToolCallError } from '@toolfleet/client';
import { useState } from 'react';
import { asToolError } from './use-query.js';

/** An action of a view: whether it runs, and why the last one failed. */
interface Action {
  busy: boolean;
  error: ToolCallError | undefined;
  /** Runs `work`, and `done` after its success. Never rejects. */
  act(work: () => Promise<unknown>, done?: () => void): Promise<void>;
}

/** @param done runs after each success that has none of its own */
export function useAction(done?: () => void): Action {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ToolCallError>();
  const act: Action['act'] = async (work, after = done) => {
    setBusy(true);
    setError(undefined);
    try {
      await work();
      after?.();
    } catch (thrown) {
      setError(asToolError(thrown));
    } finally {
      setBusy(false);
    }
  };
  return { busy, error, act };
}
