import type { RecentCall, ToolCallError } from '@toolfleet/client';
import { useEffect, useRef, useState } from 'react';
import { useSigned } from '../context.js';
import { asToolError } from '../use-query.js';
import { newestCursor, withCalls } from './call-log.js';

/** A lost stream is opened again after this, then twice as long, at most the longest. */
const AGAIN_MS = 1_000;
const LONGEST_AGAIN_MS = 20_000;
/** News is drawn this often at most: a busy fleet must not keep the page busy. */
const DRAW_EVERY_MS = 250;

export interface LiveCalls {
  calls: RecentCall[];
  state: 'loading' | 'live' | 'reconnecting' | 'off';
  error: ToolCallError | undefined;
}

/** Recent calls, and every new one while `following`. */
export function useLiveCalls(following: boolean): LiveCalls {
  const { api } = useSigned();
  const [live, setLive] = useState<LiveCalls>({ calls: [], state: 'loading', error: undefined });
  const newest = useRef<string>(undefined);

  useEffect(() => {
    if (!following) return undefined;
    const controller = new AbortController();
    const { signal } = controller;
    let waiting: RecentCall[] = [];
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
          const first = await api.recentCalls(signal);
          if (!first.enabled) return setLive({ calls: [], state: 'off', error: undefined });
          waiting.push(...first.calls);
          draw();
          setLive((old) => ({ ...old, state: 'live', error: undefined }));
          pauseMs = AGAIN_MS;
          const from = first.calls.at(-1)?.cursor ?? newest.current;
          for await (const event of api.events('/api/v1/recent-calls/events', signal, from)) {
            if (event.type === 'call') waiting.push(JSON.parse(event.data) as RecentCall);
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
