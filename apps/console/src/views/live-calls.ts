import type { FinishedCallStatus, FinishedCall, ToolCallError } from '@toolfleet/client';
import { useEffect, useRef, useState } from 'react';
import { useSigned } from '../session.js';
import { asToolError } from '../use-query.js';

/** Calls kept on the page. */
export const MOST_KEPT = 500;

/** Adds calls, newest first. Each call is shown once, by its last record: a stream repeats calls after a reconnect. */
export function withCalls(known: readonly FinishedCall[], news: readonly FinishedCall[]): FinishedCall[] {
  const cursors = new Map(known.map(({ call_id: id, cursor }) => [id, cursor]));
  const fresh = new Map<string, FinishedCall>();
  for (const call of news.toReversed()) {
    if (!fresh.has(call.call_id) && cursors.get(call.call_id) !== call.cursor) fresh.set(call.call_id, call);
  }
  if (fresh.size === 0) return known as FinishedCall[];
  return [...fresh.values(), ...known.filter(({ call_id: id }) => !fresh.has(id))].slice(0, MOST_KEPT);
}

/** The cursor from which a stream resumes. */
export const newestCursor = (calls: readonly FinishedCall[]): string | undefined => calls[0]?.cursor;

/** Which calls are shown. Empty values match all. */
export interface CallFilter {
  text: string;
  status: '' | FinishedCallStatus;
  door: string;
}

/** Calls that match; the text is searched in tool, ids, user, tenant and code. */
export function filterCalls(calls: readonly FinishedCall[], { text, status, door }: CallFilter): FinishedCall[] {
  const wanted = text.trim().toLowerCase();
  return calls.filter(
    (call) =>
      (status === '' || call.status === status) &&
      (door === '' || call.door === door) &&
      (wanted === '' || searchable(call).includes(wanted)),
  );
}

const searchable = (call: FinishedCall): string =>
  [call.tool, call.call_id, call.trace_id, call.user_id, call.tenant_id, call.code].join(' ').toLowerCase();

/** Wait before a lost stream is reopened. It doubles with every failure up to the longest. */
const AGAIN_MS = 1_000;
const LONGEST_AGAIN_MS = 20_000;
/** Shortest time between two renderings, so that a busy fleet does not keep the page busy. */
const DRAW_EVERY_MS = 250;

export interface LiveCalls {
  calls: FinishedCall[];
  state: 'loading' | 'live' | 'reconnecting' | 'off';
  error: ToolCallError | undefined;
}

/** Recent calls, and new ones while `following`. */
export function useLiveCalls(following: boolean): LiveCalls {
  const { api } = useSigned();
  const [live, setLive] = useState<LiveCalls>({ calls: [], state: 'loading', error: undefined });
  const newest = useRef<string>(undefined);

  useEffect(() => {
    if (!following) return undefined;
    const controller = new AbortController();
    const { signal } = controller;
    let waiting: FinishedCall[] = [];
    const draw = () => {
      if (waiting.length === 0) return;
      const news = waiting;
      waiting = [];
      setLive((old) => {
        const calls = withCalls(old.calls, news);
        newest.current = newestCursor(calls);
        return { calls, state: 'live', error: undefined };
      });
    };
    const timer = setInterval(draw, DRAW_EVERY_MS);
    void (async () => {
      for (let pauseMs = AGAIN_MS; !signal.aborted; pauseMs = Math.min(LONGEST_AGAIN_MS, pauseMs * 2)) {
        try {
          const first = await api.finishedCalls(signal);
          if (!first.enabled) return setLive({ calls: [], state: 'off', error: undefined });
          waiting.push(...first.calls);
          draw();
          setLive((old) => ({ ...old, state: 'live', error: undefined }));
          pauseMs = AGAIN_MS;
          const from = first.calls.at(-1)?.cursor ?? newest.current;
          for await (const event of api.finishedCallEvents(signal, from)) {
            if (event.type === 'call') waiting.push(JSON.parse(event.data) as FinishedCall);
          }
        } catch (thrown) {
          if (signal.aborted) return;
          setLive((old) => ({ ...old, error: asToolError(thrown) }));
        }
        setLive((old) => ({ ...old, state: 'reconnecting' }));
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    })();
    return () => {
      controller.abort();
      clearInterval(timer);
    };
  }, [api, following]);
  return live;
}
