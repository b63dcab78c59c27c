import type { FinishedCall, ToolCallError } from '@toolfleet/client';
import { useEffect, useRef, useState } from 'react';
import type { CallQuery } from '../api/console-api.js';
import { useSigned } from '../session.js';
import { asToolError } from '../use-query.js';
import { matchesQuery } from './call-filter.js';
import { MAX_KEPT, withNewCalls, withOlderCalls, type CallPages } from './call-list.js';

const PAGE = 100;
/** Wait before a lost stream is reopened. It doubles with every failure up to the maximum. */
const AGAIN_MS = 1_000;
const MAX_AGAIN_MS = 20_000;
/** Minimum time between two renderings, so that a busy fleet does not keep the page busy. */
const DRAW_EVERY_MS = 250;

/** The matching calls, as far as they are known. */
export interface Calls extends CallPages {
  state: 'loading' | 'live' | 'reconnecting' | 'failed' | 'off';
  error: ToolCallError | undefined;
}

const LOADING: Calls = { calls: [], next: undefined, state: 'loading', error: undefined };

/**
 * Finished calls that match, and new ones as they end; while not `following`, those wait. `queryKey` names the query: a new one starts
 * again.
 */
export function useCalls(
  queryKey: string,
  toQuery: () => CallQuery,
  following: boolean,
): Calls & { loadOlder: () => Promise<void> } {
  const { api } = useSigned();
  const [known, setKnown] = useState(LOADING);
  const isFollowing = useRef(following);
  isFollowing.current = following;
  const latest = useRef(toQuery);
  latest.current = toQuery;
  /** The query of the calls that are shown, and what ends it. */
  const current = useRef<{ query: CallQuery; signal: AbortSignal }>(undefined);

  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const query = latest.current();
    current.current = { query, signal };
    let waiting: FinishedCall[] = [];
    const draw = () => {
      if (waiting.length === 0 || !isFollowing.current) return;
      const news = waiting;
      waiting = [];
      setKnown((old) => ({ ...old, ...withNewCalls(old, news) }));
    };
    const timer = setInterval(draw, DRAW_EVERY_MS);
    setKnown((old) => ({ ...LOADING, calls: old.calls }));
    void (async () => {
      for (let pauseMs = AGAIN_MS; !signal.aborted; pauseMs = Math.min(MAX_AGAIN_MS, pauseMs * 2)) {
        try {
          // The stream begins at the newest of all calls, because the newest that matches may be old.
          const newest = await api.finishedCalls({ limit: 1 }, signal);
          const page = await api.finishedCalls({ ...query, limit: PAGE }, signal);
          if (!page.enabled) return setKnown({ ...LOADING, state: 'off' });
          waiting = [];
          setKnown({ ...withOlderCalls(LOADING, page), state: 'live', error: undefined });
          pauseMs = AGAIN_MS;
          for await (const event of api.finishedCallEvents(signal, newest.calls.at(-1)?.cursor)) {
            if (event.type !== 'call') continue;
            const call = JSON.parse(event.data) as FinishedCall;
            if (matchesQuery(call, query)) waiting = [...waiting, call].slice(-MAX_KEPT);
          }
        } catch (thrown) {
          if (signal.aborted) return;
          const error = asToolError(thrown);
          setKnown((old) => ({ ...old, error, state: 'failed' }));
          // The same request would be refused again.
          if (error.status === 400 || error.status === 403) return;
        }
        if (signal.aborted) return;
        setKnown((old) => ({ ...old, state: 'reconnecting' }));
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    })();
    return () => {
      controller.abort();
      clearInterval(timer);
    };
  }, [api, queryKey]);

  const loadOlder = async () => {
    if (!current.current || known.next === undefined) return;
    const { query, signal } = current.current;
    try {
      const page = await api.finishedCalls({ ...query, limit: PAGE, before: known.next }, signal);
      setKnown((old) => (old.next === known.next ? { ...old, ...withOlderCalls(old, page), error: undefined } : old));
    } catch (thrown) {
      if (!signal.aborted) setKnown((old) => ({ ...old, error: asToolError(thrown) }));
    }
  };
  return { ...known, loadOlder };
}
