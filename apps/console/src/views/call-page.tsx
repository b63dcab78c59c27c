import { FINAL_STATUSES, toCurl, type FinishedCall, type FinishedCallDetail, type JsonObject } from '@toolfleet/client';
import { useEffect, useState } from 'react';
import { useRoute } from '../api/queries.js';
import { count, dateTime, duration, money, pretty } from '../format.js';
import { toAddress, toFilteredAddress } from '../router.js';
import { useSigned } from '../session.js';
import { Back, Card, Empty, ErrorNotice, Facts, Head, Snippet, Verbatim } from '../ui/components.js';
import { BodyNotes, BodySection, useBody, WhyNoBody, type ShownBody } from './call-body.js';
import { CallOutcome } from './call-outcome.js';
import { Attempts, CallFailure, CallTimeline } from './call-record.js';
import { CallStatusBadge } from './call-status.js';
import { toOutcome, useFollowedCall } from './follow-call.js';

/** A call is recorded shortly after it ended; so long its record is asked for again. */
const RECORD_EVERY_MS = 1_500;
const RECORD_WITHIN_MS = 15_000;

/**
 * One call: where its time went, its arguments and result if they are kept, its attempts and its log lines.
 * @param list address of the list that it was opened from
 */
export function CallPage({ id, list }: { id: string; list: string }) {
  const followed = useFollowedCall(id);
  const { call: kept } = followed;
  const isRunning = kept !== undefined && !FINAL_STATUSES.has(kept.status);
  const { data: detail, error: notRecorded } = useRecord(id, isRunning);
  const recent = detail?.call;
  const tool = recent?.tool ?? kept?.tool;
  // The name of a tool that was not found is not recorded.
  const named = recent === undefined || recent.source !== undefined ? tool : undefined;
  const body = useBody(id, detail?.body);
  const args = kept?.arguments ?? body.data?.arguments;
  const isUnknown = followed.error?.code === 'NOT_FOUND' && notRecorded?.code === 'NOT_FOUND';
  return (
    <>
      <Back to={list}>All calls</Back>
      <CallHead id={id} title={tool ?? 'Call'} isRunning={isRunning} tool={named} hasArguments={args !== undefined} />
      <ErrorNotice error={[followed.error, notRecorded].find((one) => one && one.code !== 'NOT_FOUND')} />
      {isUnknown && (
        <Empty>
          This fleet does not know this call, or does not keep it any more. An operator sets how long finished calls are
          kept.
        </Empty>
      )}
      {detail && <Record {...detail} />}
      {tool !== undefined && <Arguments tool={named} args={args} body={body} />}
      {kept ? (
        <CallOutcome state={toOutcome(followed)} tool={kept.tool} withTiming={!recent} isPage />
      ) : (
        recent && <BodySection title="Result" part="result" body={body} />
      )}
      {body.data?.upstream && <BodySection title="Answer of the upstream" part="upstream" body={body} />}
      {body.data?.errors && <BodySection title="Errors" part="errors" body={body} />}
      {recent && <Logs call={recent} logs={detail?.logs} />}
    </>
  );
}

/** @param props.tool absent: it cannot be run again */
function CallHead(props: {
  id: string;
  title: string;
  isRunning: boolean;
  tool: string | undefined;
  hasArguments: boolean;
}) {
  const { id, title, isRunning, tool, hasArguments } = props;
  const { api } = useSigned();
  const about = (
    <span className="wrap">
      Call <code>{id}</code>
    </span>
  );
  return (
    <Head title={title} about={about}>
      {isRunning && <button onClick={() => void api.cancel(id).catch(() => undefined)}>Cancel</button>}
      {tool !== undefined && (
        <a className="button" href={toAddress('tools', tool, hasArguments ? id : undefined)}>
          Run again
        </a>
      )}
    </Head>
  );
}

/** The record of a call. One that has just ended, and one that is running, is asked for again until it is there. */
function useRecord(id: string, isRunning: boolean) {
  const [isAwaited, setAwaited] = useState(true);
  const everyMs = isAwaited ? RECORD_EVERY_MS : undefined;
  const query = useRoute('GET /api/v1/calls/{id}/record', { path: { id } }, { everyMs });
  const isFound = query.data !== undefined;
  useEffect(() => {
    setAwaited(!isFound);
    if (isFound || isRunning) return undefined;
    const timer = setTimeout(() => setAwaited(false), RECORD_WITHIN_MS);
    return () => clearTimeout(timer);
  }, [id, isFound, isRunning]);
  return query;
}

const Record = ({ call, made }: { call: FinishedCall; made: readonly FinishedCall[] }) => (
  <Card title="Timeline" aside={<CallStatusBadge status={call.status} code={call.code} />}>
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
        ['Executor reached', REACHED[call.outcomes.transport]],
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
    <Related call={call} />
  </Card>
);

/** Links to calls that have to do with a call. */
function Related({
  call: { parent_call_id: parent, replay_of: original, tool, user_id: user },
}: {
  call: FinishedCall;
}) {
  const links: (readonly [address: string | false | undefined, text: string])[] = [
    [parent && toAddress('calls', parent), 'The call whose tool made it'],
    [original && toAddress('calls', original), 'The call whose outcome it repeats'],
    [toFilteredAddress('calls', { tool }), 'Calls of this tool'],
    [user !== '' && toFilteredAddress('calls', { user_id: user }), 'Calls of this user'],
  ];
  return (
    <ul className="row small">
      {links.map(
        ([address, text]) =>
          address && (
            <li key={text}>
              <a href={address}>{text}</a>
            </li>
          ),
      )}
    </ul>
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

/** @param props.tool absent: its name is not recorded */
function Arguments(props: { tool: string | undefined; args: JsonObject | undefined; body: ShownBody }) {
  const { tool, args, body } = props;
  return (
    <Card title="Arguments">
      {args ? (
        <>
          <Verbatim label="Arguments" text={pretty(args)} />
          <BodyNotes part="arguments" body={body} />
        </>
      ) : (
        <WhyNoBody body={body} />
      )}
      {tool !== undefined && (
        <Snippet
          copies
          title={args ? 'As curl' : 'As curl, without its arguments'}
          text={toCurl(location.origin, tool, args ?? {})}
        />
      )}
    </Card>
  );
}

function Logs({ call, logs = {} }: { call: FinishedCall; logs: FinishedCallDetail['logs'] | undefined }) {
  const { me } = useSigned();
  const { trace_url: traceUrl, log_search: search } = logs;
  return (
    <Card title="Logs">
      {call.trace_id === undefined ? (
        <p className="soft">This call has no trace.</p>
      ) : (
        <p>
          Its lines have <code>trace_id</code> <code className="wrap">{call.trace_id}</code>
        </p>
      )}
      {traceUrl !== undefined && <Outside address={traceUrl}>Trace</Outside>}
      {search !== undefined &&
        (/^https?:/.test(search) ? (
          <Outside address={search}>Log lines</Outside>
        ) : (
          <Snippet copies title="Command" text={search} />
        ))}
      {me.operator && search === undefined && (
        <p className="small soft">GATEWAY_LOG_SEARCH can show a link or a command here.</p>
      )}
    </Card>
  );
}

/** A link that leaves the console. */
const Outside = ({ address, children }: { address: string; children: string }) => (
  <p>
    <a href={address} target="_blank" rel="noreferrer">
      {children}
    </a>
  </p>
);
