import type { FinishedCall } from '@toolfleet/contracts/records';
import type { FinishedCallDetail } from '@toolfleet/contracts/resources';

/** Where operators find the log lines of a call. */
type CallLogs = NonNullable<FinishedCallDetail['logs']>;

/** Fills `{trace_id}` and `{call_id}` into the templates of GATEWAY_TRACE_URL and GATEWAY_LOG_SEARCH. */
export class LogLinks {
  constructor(
    private readonly traceUrl: string | undefined,
    private readonly logSearch: string | undefined,
  ) {}

  /** The links of one call. A call without a trace, of which no line has its id, has none. */
  find({ call_id: callId, trace_id: traceId }: Pick<FinishedCall, 'call_id' | 'trace_id'>): CallLogs {
    if (traceId === undefined) return {};
    const fill = (template: string | undefined) =>
      template?.replaceAll('{trace_id}', traceId).replaceAll('{call_id}', encodeURIComponent(callId));
    return { trace_url: fill(this.traceUrl), log_search: fill(this.logSearch) };
  }
}
