import type { FinishedCall, ToolCallError, ToolfleetClient } from '@toolfleet/client';
import { useEffect, useRef, useState } from 'react';
import { asToolError } from '../api/queries.js';
import { useSigned } from '../session.js';
import { matchesQuery, type FinishedCallQuery } from './call-filter.js';
import { MAX_KEPT, withNewCalls, withOlderCalls, type CallPages } from './call-list.js';

const PAGE = 100;
/** Wait before a lost stream is reopened. It doubles with every failure up to the maximum. */
const AGAIN_MS = 1_000;
const MAX_AGAIN_MS = 20_000;
/** Minimum time between two renderings, so that a busy fleet does not keep the page busy. */
const DRAW_EVERY_MS = 250;

/** The matching calls, as far as they are known. */
export interface LiveCalls extends CallPages {
  state: 'loading' | 'live' | 'reconnecting' | 'failed' | 'off';
  error: ToolCallError | undefined;
}

const LOADING: LiveCalls = { calls: [], next: undefined, state: 'loading', error: undefined };

type Report = (change: (old: LiveCalls) => LiveCalls) => void;
interface FollowTarget {
  api: ToolfleetClient;
  query: FinishedCallQuery;
  signal: AbortSignal;
}

/**
 * Loads the newest calls that match and follows new ones, until the signal is aborted, the gateway refuses the request, or the
 * stream ends.
 * @returns whether it is worth another attempt
 */
async function followCalls(
  { api, query, signal }: FollowTarget,
  report: Report,
  onCall: (call: FinishedCall) => void,
): Promise<boolean> {
  try {
    // The stream begins at the newest of all calls, because the newest that matches may be old.
    const newest = await api.request('GET /api/v1/calls', { query: { limit: 1 }, signal });
    const page = await api.request('GET /api/v1/calls', { query: { ...query, limit: PAGE }, signal });
    report(() => (page.enabled ? { ...withOlderCalls(LOADING, page), state: 'live', error: undefined } : OFF));
    if (!page.enabled) return false;
    for await (const event of api.events('GET /api/v1/calls/events', { signal, lastId: newest.calls.at(-1)?.cursor })) {
      if (event.type !== 'call') continue;
      const call = JSON.parse(event.data) as FinishedCall;
      if (matchesQuery(call, query)) onCall(call);
    }
  } catch (thrown) {
    const error = asToolError(thrown);
    report((old) => ({ ...old, error, state: 'failed' }));
    // The same request would be refused again.
    if (error.status === 400 || error.status === 403) return false;
  }
  report((old) => ({ ...old, state: 'reconnecting' }));
  return true;
}

const OFF: LiveCalls = { ...LOADING, state: 'off' };

/** Follows calls, again after every lost stream, until the signal is aborted or the gateway refuses. `onLost`: a stream was lost. */
async function keepFollowing(
  target: FollowTarget,
  report: Report,
  { onCall, onLost }: { onCall: (call: FinishedCall) => void; onLost: () => void },
): Promise<void> {
  let pauseMs = AGAIN_MS;
  const note = (call: FinishedCall) => {
    pauseMs = AGAIN_MS;
    onCall(call);
  };
  while (await followCalls(target, report, note)) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    if (target.signal.aborted) return;
    pauseMs = Math.min(MAX_AGAIN_MS, pauseMs * 2);
    onLost();
  }
}

/**
 * Finished calls that match, and new ones as they end; while not `following`, those wait. `queryKey` names the query: a new one starts
 * again.
 */
export function useCalls(
  queryKey: string,
  toQuery: () => FinishedCallQuery,
  following: boolean,
): LiveCalls & { loadOlder: () => Promise<void> } {
  const { api } = useSigned();
  const [known, setKnown] = useState(LOADING);
  const isFollowing = useRef(following);
  isFollowing.current = following;
  /** The query of the shown calls, and the signal that ends it. */
  const current = useRef<{ query: FinishedCallQuery; signal: AbortSignal }>(undefined);

  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const query = toQuery();
    current.current = { query, signal };
    let waiting: FinishedCall[] = [];
    const report: Report = (change) => !signal.aborted && setKnown(change);
    const timer = setInterval(() => {
      if (waiting.length === 0 || !isFollowing.current) return;
      const news = waiting;
      waiting = [];
      report((old) => ({ ...old, ...withNewCalls(old, news) }));
    }, DRAW_EVERY_MS);
    report((old) => ({ ...LOADING, calls: old.calls }));
    void keepFollowing({ api, query, signal }, report, {
      onCall: (call) => (waiting = [...waiting, call].slice(-MAX_KEPT)),
      onLost: () => (waiting = []),
    });
    return () => {
      controller.abort();
      clearInterval(timer);
    };
  }, [api, queryKey]);

  const loadOlder = async () => {
    if (!current.current || known.next === undefined) return;
    const { query, signal } = current.current;
    const report: Report = (change) => !signal.aborted && setKnown(change);
    try {
      const older = { ...query, limit: PAGE, before: known.next };
      const page = await api.request('GET /api/v1/calls', { query: older, signal });
      report((old) => (old.next === known.next ? { ...old, ...withOlderCalls(old, page), error: undefined } : old));
    } catch (thrown) {
      report((old) => ({ ...old, error: asToolError(thrown) }));
    }
  };
  return { ...known, loadOlder };
}
