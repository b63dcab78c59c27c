import {
  type RequestArguments,
  type RouteAnswer,
  type RouteKey,
  type RouteRequest,
  ToolCallError,
} from '@toolfleet/client';
import { QueryClient, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useSigned } from '../session.js';

/** Data that is loaded from the gateway. Old data stays while new data is loading, and together with an error. */
export interface Loading<T> {
  data: T | undefined;
  error: ToolCallError | undefined;
  /** Requests the data again. */
  refresh: () => void;
}

interface LoadingOptions {
  /** Period of repeated requests while the page is visible. Absent: only when a view opens and after actions. */
  everyMs?: number | undefined;
  /** False: nothing is requested. */
  enabled?: boolean;
}

/**
 * The cache of one signed-in caller. Views of the same data share one request. A refused request is not repeated, because the reader
 * decides; data is requested again whenever a view opens, because it may have changed.
 */
export const createCache = (): QueryClient =>
  new QueryClient({
    defaultOptions: { queries: { retry: false, networkMode: 'always' }, mutations: { networkMode: 'always' } },
  });

/** The answer of a route. A component with another `request` starts without data. */
export function useRoute<K extends RouteKey>(
  route: K,
  request: RouteRequest<K>,
  options?: LoadingOptions,
): Loading<RouteAnswer<K>> {
  const { api } = useSigned();
  const ask = (signal: AbortSignal) => api.request(route, ...([{ ...request, signal }] as RequestArguments<K>));
  return useLoading([route, request], ask, options);
}

/** The result of `ask`; `key` names it in the cache. */
export function useLoading<T>(
  key: readonly unknown[],
  ask: (signal: AbortSignal) => Promise<T>,
  { everyMs, enabled = true }: LoadingOptions = {},
): Loading<T> {
  const { data, error, refetch } = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => ask(signal),
    enabled,
    refetchInterval: everyMs ?? false,
    // Readings of some data are recorded, so only data that is followed is read again without a reason.
    refetchOnWindowFocus: everyMs === undefined ? false : 'always',
  });
  return { data, error: error === null ? undefined : asToolError(error), refresh: () => void refetch() };
}

/** Requests everything again that is on the page. */
export function useRefresh(): () => void {
  const cache = useQueryClient();
  return () => void cache.refetchQueries({ type: 'active' });
}

/** Actions of a view, one at a time: whether one runs, and why the last one failed. */
interface Action {
  busy: boolean;
  error: ToolCallError | undefined;
  /** Runs `work`, then requests everything on the page again. Never rejects; true if `work` succeeded. */
  act(work: () => Promise<unknown>): Promise<boolean>;
}

export function useAction(): Action {
  const cache = useQueryClient();
  const { isPending, error, mutateAsync } = useMutation({
    mutationFn: (work: () => Promise<unknown>) => work(),
    // After a failure as well: it may be due to data that is out of date.
    onSettled: () => void cache.invalidateQueries(),
  });
  const act = (work: () => Promise<unknown>) =>
    mutateAsync(work).then(
      () => true,
      () => false,
    );
  return { busy: isPending, error: error === null ? undefined : asToolError(error), act };
}

/** Converts any thrown value to the error type that views show. */
export function asToolError(thrown: unknown): ToolCallError {
  return thrown instanceof ToolCallError ? thrown : new ToolCallError('INTERNAL', String(thrown), { cause: thrown });
}
