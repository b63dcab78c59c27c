import { ToolCallError } from '@toolfleet/client';
import { useCallback, useEffect, useRef, useState } from 'react';

/** State of a request for data. Old data stays while new data is loading, and together with an error. */
export interface Query<T> {
  data: T | undefined;
  error: ToolCallError | undefined;
  loading: boolean;
  /** Requests the data again. */
  refresh: () => void;
}

/**
 * Requests data when a view opens, when `key` changes and, with `everyMs`, periodically while the page is visible and when it
 * becomes visible. A response that arrives after a newer request is ignored.
 */
export function useQuery<T>(key: string, ask: (signal: AbortSignal) => Promise<T>, everyMs?: number): Query<T> {
  const [state, setState] = useState<Omit<Query<T>, 'refresh'>>({ data: undefined, error: undefined, loading: true });
  const [turn, setTurn] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  const shownKey = useRef(key);

  useEffect(() => {
    const controller = new AbortController();
    const isOther = shownKey.current !== key;
    shownKey.current = key;
    setState((old) => ({
      data: isOther ? undefined : old.data,
      error: isOther ? undefined : old.error,
      loading: true,
    }));
    latest.current(controller.signal).then(
      (data) => !controller.signal.aborted && setState({ data, error: undefined, loading: false }),
      (thrown: unknown) =>
        !controller.signal.aborted && setState((old) => ({ ...old, error: asToolError(thrown), loading: false })),
    );
    return () => controller.abort();
  }, [key, turn]);

  const refresh = useCallback(() => setTurn((old) => old + 1), []);
  useEffect(() => {
    if (everyMs === undefined) return undefined;
    const look = () => document.visibilityState === 'visible' && refresh();
    const timer = setInterval(look, everyMs);
    document.addEventListener('visibilitychange', look);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }, [everyMs, refresh]);
  return { ...state, refresh };
}

/** Converts any thrown value to the error type that views show. */
export function asToolError(thrown: unknown): ToolCallError {
  return thrown instanceof ToolCallError ? thrown : new ToolCallError('INTERNAL', String(thrown), { cause: thrown });
}
