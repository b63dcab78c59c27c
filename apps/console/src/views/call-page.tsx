import { FINAL_STATUSES, toCurl, type JsonObject, type FinishedCall, type FinishedCallDetail } from '@toolfleet/client';
import { useEffect, useState } from 'react';
import { count, dateTime, duration, money, pretty } from '../format.js';
import { toAddress, toFilteredAddress } from '../router.js';
import { useSigned } from '../session.js';
import { Empty, ErrorNotice, Facts, Head } from '../ui/components.js';
import { CopyButton } from '../ui/copy-button.js';
import { useQuery } from '../use-query.js';
import { Attempts, CallFailure, CallTimeline } from './call-record.js';
import { BodyNotes, BodySection, useBody, WhyNoBody, type Body } from './call-body.js';
import { CallOutcome } from './call-outcome.js';
import { CallStatusBadge } from './call-status.js';
import { toCallState, useFollowedCall } from './follow-call.js';

/** A call is recorded shortly after it ended; so long its record is asked for again. */
const RECORD_EVERY_MS = 1_500;
const RECORD_WITHIN_MS = 15_000;

/**
 * One call: where its time went, its arguments and result if they are kept, its attempts and its log lines.
 * @param list address of the list that it was opened from
 */
export function CallPage({ id, list }: { id: string; list: string }) {
  const { api } = useSigned();
  const followed = useFollowedCall(id);
  const { call: kept } = followed;
  const isRunning = kept !== undefined && !FINAL_STATUSES.has(kept.status);
  const detail = useRecord(id, isRunning);
  const recent = detail.data?.call;
  const tool = recent?.tool ?? kept?.tool;
  // The name of a tool that was not found is not recorded.
  const isNamed = tool !== undefined && (recent === undefined || recent.source !== undefined);
  const body = useBody(id, detail.data?.body);
  const args = kept?.arguments ?? body.data?.arguments;
  const isUnknown = followed.error?.code === 'NOT_FOUND' && detail.error?.code === 'NOT_FOUND';
  const error = [followed.error, detail.error].find((one) => one && one.code !== 'NOT_FOUND');
  return (
    <>
      <p>
        <a href={list}>All calls</a>
      </p>
      <Head
        title={tool ?? 'Call'}
        about={
          <span className="wrap">
            Call <code>{id}</code>
          </span>
        }
      >
        {isRunning && <button onClick={() => void api.cancelCall(id).catch(() => undefined)}>Cancel</button>}
        {isNamed && (
          <a className="button" href={toAddress('tools', tool, args && id)}>
            Run again
          </a>
        )}
      </Head>
      {error && <ErrorNotice error={error} />}
      {isUnknown && (
        <Empty>
          This fleet does not know this call, or does not keep it any more. An operator sets how long finished calls are
          kept.
        </Empty>
      )}
      {detail.data && <Record {...detail.data} />}
      {tool !== undefined && <Arguments tool={isNamed ? tool : undefined} args={args} body={body} />}
      {kept ? (
        <CallOutcome state={toCallState(followed)} tool={kept.tool} withTiming={!recent} isPage />
      ) : (
        recent && <BodySection title="Result" part="result" body={body} />
      )}
      {body.data?.upstream && <BodySection title="Answer of the upstream" part="upstream" body={body} />}
      {body.data?.errors && <BodySection title="Errors" part="errors" body={body} />}
      {recent && <Logs call={recent} logs={detail.data?.logs} />}
    </>
  );
}

/** The record of a call. One that has just ended, and one that is running, is asked for again until it is there. */
function useRecord(id: string, isRunning: boolean) {
  const { api } = useSigned();
  const [isAwaited, setAwaited] = useState(true);
  const query = useQuery(
    `record ${id}`,
    (signal) => api.finishedCall(id, signal),
    isAwaited ? RECORD_EVERY_MS : undefined,
  );
  const isFound = query.data !== undefined;
  useEffect(() => {
    setAwaited(!isFound);
    if (isFound || isRunning) return undefined;
    const timer = setTimeout(() => setAwaited(false), RECORD_WITHIN_MS);
    return () => clearTimeout(timer);
  }, [id, isFound, isRunning]);
  return query;
}

function Record({ call, made }: { call: FinishedCall; made: readonly FinishedCall[] }) {
  const { parent_call_id: parent, replay_of: original, outcomes } = call;
  return (
    <section className="card stack" aria-labelledby="timeline">
      <div className="row spread">
        <h2 id="timeline">Timeline</h2>
        <CallStatusBadge status={call.status} code={call.code} />
      </div>
      {call.status !== 'success' && <CallFailure call={call} />}
      <CallTimeline call={call} made={made} />
      <Attempts call={call} />
      <Facts
        facts={[
          ['Duration', duration(call.duration_ms)],
          ['Ended', dateTime(call.ended_at)],
          ['Attempts', String(call.attempts)],
          ['Cost', money(call.cost_usd)],
          ['Tokens', call.tokens > 0 ? count(call.tokens) : undefined],
          ['Result from', call.provenance && (PROVENANCE[call.provenance] ?? call.provenance)],
          ['Executor reached', REACHED[outcomes.transport]],
          ['Policy', call.policy && [call.policy, ...(call.policy_rules ?? [])].join(' ')],
          ['Interceptors', call.interceptions?.join(', ')],
          ['Entry point', call.entry_point],
          ['Client', call.client],
          ['Tenant', call.tenant_id],
          ['User', call.user_id],
          ['API key', call.key_id],
          ['Authenticated by', call.via],
          ['Roles', call.roles?.join(', ') || undefined],
          ['Agent', call.agent_id],
          ['Source', call.source],
          ['Toolset', call.toolset],
          ['Idempotency key', call.idempotency_key],
        ]}
      />
      <ul className="row small">
        {parent !== undefined && (
          <li>
            <a href={toAddress('calls', parent)}>The call whose tool made it</a>
          </li>
        )}
        {original !== undefined && (
          <li>
            <a href={toAddress('calls', original)}>The call whose outcome it repeats</a>
          </li>
        )}
        <li>
          <a href={toFilteredAddress('calls', { tool: call.tool })}>Calls of this tool</a>
        </li>
        {call.user_id !== '' && (
          <li>
            <a href={toFilteredAddress('calls', { user_id: call.user_id })}>Calls of this user</a>
          </li>
        )}
      </ul>
    </section>
  );
}

/** Where a result came from, in words. */
const PROVENANCE: Readonly<Record<string, string>> = {
  live: 'the tool',
  cache: 'the cache',
  stale_cache: 'the cache, out of date',
  stub: 'the substitute data of the tool',
};
const REACHED = { not_sent: 'not asked', delivered: 'yes', failed: 'no', unknown: 'unknown' } as const;

/** @param tool absent: its name is not recorded */
function Arguments({ tool, args, body }: { tool: string | undefined; args: JsonObject | undefined; body: Body }) {
  return (
    <section className="card stack" aria-labelledby="arguments">
      <h2 id="arguments">Arguments</h2>
      {args ? (
        <>
          <pre tabIndex={0} aria-label="Arguments">
            {pretty(args)}
          </pre>
          <BodyNotes part="arguments" body={body} />
          {tool !== undefined && <Command label="As curl" text={toCurl(location.origin, tool, args)} />}
        </>
      ) : (
        <>
          <WhyNoBody body={body} />
          {tool !== undefined && (
            <Command label="As curl, without its arguments" text={toCurl(location.origin, tool, {})} />
          )}
        </>
      )}
    </section>
  );
}

function Logs({ call, logs }: { call: FinishedCall; logs: FinishedCallDetail['logs'] }) {
  const { me } = useSigned();
  const { trace_url: traceUrl, log_search: search } = logs ?? {};
  return (
    <section className="card stack" aria-labelledby="logs">
      <h2 id="logs">Logs</h2>
      {call.trace_id === undefined ? (
        <p className="soft">This call has no trace.</p>
      ) : (
        <p>
          Its lines have <code>trace_id</code> <code className="wrap">{call.trace_id}</code>
        </p>
      )}
      {traceUrl !== undefined && (
        <p>
          <a href={traceUrl} target="_blank" rel="noreferrer">
            Trace
          </a>
        </p>
      )}
      {search !== undefined &&
        (/^https?:/.test(search) ? (
          <p>
            <a href={search} target="_blank" rel="noreferrer">
              Log lines
            </a>
          </p>
        ) : (
          <Command label="Command" text={search} />
        ))}
      {me.operator && search === undefined && (
        <p className="small soft">GATEWAY_LOG_SEARCH can show a link or a command here.</p>
      )}
    </section>
  );
}

function Command({ label, text }: { label: string; text: string }) {
  return (
    <div className="stack tight">
      <div className="row spread">
        <h3>{label}</h3>
        <CopyButton text={text} />
      </div>
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
    </div>
  );
}
