import { useState } from 'react';
import type { FinishedCall } from '@toolfleet/client';
import { useSigned } from '../session.js';
import { clockTime, count, dateTime, duration } from '../format.js';
import { toAddress } from '../router.js';
import { Badge, Choice, Empty, ErrorNotice, Head, Search } from '../ui/components.js';
import { Stages } from '../ui/meters.js';
import { CallPage } from './call-page.js';
import { CALL_STATUS, CallStatusBadge } from './call-status.js';
import { filterCalls, type CallFilter, useLiveCalls, type LiveCalls } from './live-calls.js';

const MOST_SHOWN = 100;
/** Finished calls, live, or one call. */
export function CallsView({ item }: { item: string | undefined }) {
  const [filter, setFilter] = useState<CallFilter>({ text: '', status: '', door: '' });
  return item === undefined ? <CallList filter={filter} onFilter={setFilter} /> : <CallPage key={item} id={item} />;
}

function CallList({ filter, onFilter: setFilter }: { filter: CallFilter; onFilter: (filter: CallFilter) => void }) {
  const { me } = useSigned();
  const [following, setFollowing] = useState(true);
  const live = useLiveCalls(following);
  const found = filterCalls(live.calls, filter);
  return (
    <>
      <Head
        title="Calls"
        about={me.operator ? 'Finished calls of every tenant.' : `Finished calls of ${me.tenant_id}.`}
      >
        <LiveMark live={live} following={following} />
        <button onClick={() => setFollowing(!following)}>{following ? 'Pause' : 'Follow'}</button>
      </Head>
      {live.error && <ErrorNotice error={live.error} />}
      {live.state === 'off' && (
        <div className="notice">
          <strong>This fleet does not record calls</strong>
          <span>GATEWAY_CALL_SPOOL is 0. The log and the metrics have every call.</span>
        </div>
      )}
      <search className="filters">
        <Search
          placeholder="Tool, call, trace, user or code"
          value={filter.text}
          onChange={(text) => setFilter({ ...filter, text })}
        />
        <Choice
          label="Status"
          value={filter.status}
          onChange={(status) => setFilter({ ...filter, status: status as CallFilter['status'] })}
          options={[['', 'All'], ...Object.entries(CALL_STATUS).map(([status, [, text]]) => [status, text] as const)]}
        />
        <Choice
          label="Entry point"
          value={filter.door}
          onChange={(door) => setFilter({ ...filter, door })}
          options={[
            ['', 'All'],
            ['http', 'HTTP'],
            ['mcp', 'MCP'],
            ['nats', 'NATS'],
            ['queue', 'Background'],
          ]}
        />
      </search>
      <div className="card">
        {found.length === 0 ? (
          <Empty>
            {live.state === 'loading' ? 'Loading…' : 'No matching call yet. New calls appear here automatically.'}
          </Empty>
        ) : (
          <table className="table calls">
            <caption className="visually-hidden">Finished calls, newest first</caption>
            <thead>
              <tr>
                <th scope="col">Tool</th>
                <th scope="col">Status</th>
                <th scope="col">Ended</th>
                <th scope="col">Entry point</th>
                {me.operator && <th scope="col">Tenant</th>}
                <th scope="col">Time</th>
                <th scope="col" className="figure">
                  Duration
                </th>
              </tr>
            </thead>
            <tbody>
              {found.slice(0, MOST_SHOWN).map((call) => (
                <CallRow key={call.call_id} call={call} />
              ))}
            </tbody>
          </table>
        )}
      </div>
      {found.length > MOST_SHOWN && (
        <p className="soft small">
          The newest {MOST_SHOWN} of {count(found.length)} shown. A search narrows them down.
        </p>
      )}
    </>
  );
}

function LiveMark({ live, following }: { live: LiveCalls; following: boolean }) {
  if (!following) return <Badge>paused</Badge>;
  if (live.state === 'live')
    return (
      <Badge tone="good">
        <span className="pulse live" /> live
      </Badge>
    );
  return live.state === 'reconnecting' ? <Badge tone="warn">connecting again</Badge> : null;
}

function CallRow({ call }: { call: FinishedCall }) {
  const { me } = useSigned();
  return (
    <tr>
      <td className="lead">
        <a href={toAddress('calls', call.call_id)}>
          {call.tool}
          <span className="visually-hidden"> call {call.call_id}</span>
        </a>
      </td>
      <td data-label="Status">
        <CallStatusBadge status={call.status} code={call.code} />
      </td>
      <td data-label="Ended" className="numbers ended" title={dateTime(call.ended_at)}>
        {clockTime(call.ended_at)}
      </td>
      <td className="wide-only">{call.door}</td>
      {me.operator && <td className="wide-only">{call.tenant_id}</td>}
      <td className="wide-only">
        <span className="call-stages">
          <Stages stages={call.stages} />
        </span>
      </td>
      <td data-label="Duration" className="figure duration">
        {duration(call.duration_ms)}
      </td>
    </tr>
  );
}
