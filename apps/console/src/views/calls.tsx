import { useEffect, useRef, useState } from 'react';
import type { FinishedCall } from '@toolfleet/client';
import { useSigned } from '../session.js';
import { clockTime, dateTime, duration, money } from '../format.js';
import { toAddress, toFilteredAddress, usePlace, type PlaceFilter } from '../router.js';
import { Badge, Empty, ErrorNotice, Head } from '../ui/components.js';
import { Stages } from '../ui/meters.js';
import { toCallQuery } from './call-filter.js';
import { CallFilters } from './call-filters.js';
import { toRows } from './call-list.js';
import { CallPage } from './call-page.js';
import { CallStatusBadge } from './call-status.js';
import { useCalls, type Calls } from './use-calls.js';

/** Time after the last change of a filter until calls are asked for. */
const TYPING_MS = 300;

/** Finished calls that match the filter in the address, or one call. */
export function CallsView({ item }: { item: string | undefined }) {
  const { filter } = usePlace();
  const list = useRef(toAddress('calls'));
  if (item === undefined) list.current = toFilteredAddress('calls', filter);
  return item === undefined ? <CallList filter={filter} /> : <CallPage key={item} id={item} list={list.current} />;
}

function CallList({ filter }: { filter: PlaceFilter }) {
  const { me } = useSigned();
  const [following, setFollowing] = useState(true);
  const applied = useSettled(JSON.stringify(filter));
  const { loadOlder, ...calls } = useCalls(
    applied,
    () => toCallQuery(JSON.parse(applied) as PlaceFilter, Date.now()),
    following,
  );
  const [isLoading, setLoading] = useState(false);
  const showOlder = async () => {
    // New calls would move those that are being read.
    setFollowing(false);
    setLoading(true);
    await loadOlder();
    setLoading(false);
  };
  return (
    <>
      <Head
        title="Calls"
        about={me.operator ? 'Finished calls of every tenant.' : `Finished calls of ${me.tenant_id}.`}
      >
        <LiveMark calls={calls} following={following} />
        <button onClick={() => setFollowing(!following)}>{following ? 'Pause' : 'Follow'}</button>
      </Head>
      {calls.error && <ErrorNotice error={calls.error} />}
      {calls.state === 'off' && (
        <div className="notice">
          <strong>This fleet does not record calls</strong>
          <span>GATEWAY_CALL_SPOOL is 0. The log and the metrics have every call.</span>
        </div>
      )}
      <CallFilters filter={filter} tools={[...new Set(calls.calls.map(({ tool }) => tool))].toSorted()} />
      <div className="card">
        {calls.calls.length > 0 ? (
          <CallTable calls={calls.calls} />
        ) : (
          <Empty>
            {calls.state === 'loading'
              ? 'Loading…'
              : calls.next === undefined
                ? 'No matching call. New calls appear here automatically.'
                : 'No matching call among the newest ones.'}
          </Empty>
        )}
      </div>
      {calls.next !== undefined && (
        <p>
          <button disabled={isLoading} onClick={() => void showOlder()}>
            {isLoading ? 'Loading older calls…' : 'Show older calls'}
          </button>
        </p>
      )}
    </>
  );
}

/** A value once it has not changed for a moment; the first one at once. */
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), TYPING_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

function LiveMark({ calls: { state }, following }: { calls: Calls; following: boolean }) {
  if (!following) return <Badge>paused</Badge>;
  if (state === 'live')
    return (
      <Badge tone="good">
        <span className="pulse live" /> live
      </Badge>
    );
  return state === 'reconnecting' ? <Badge tone="warn">connecting again</Badge> : null;
}

function CallTable({ calls }: { calls: readonly FinishedCall[] }) {
  const { me } = useSigned();
  const scaleMs = Math.max(...calls.map(({ duration_ms: ms }) => ms));
  return (
    <table className="table calls">
      <caption className="visually-hidden">
        Finished calls, newest first; calls that a tool made are below its call
      </caption>
      <thead>
        <tr>
          <th scope="col">Tool</th>
          <th scope="col">Status</th>
          <th scope="col">Ended</th>
          {me.operator && (
            <th scope="col" className="desk-only">
              Tenant
            </th>
          )}
          <th scope="col">User</th>
          <th scope="col" className="figure desk-only">
            Attempts
          </th>
          <th scope="col" className="figure">
            Cost
          </th>
          <th scope="col" className="desk-only">
            Time
          </th>
          <th scope="col" className="figure">
            Duration
          </th>
        </tr>
      </thead>
      <tbody>
        {toRows(calls).map(({ call, depth }) => (
          <CallRow key={call.call_id} call={call} depth={depth} scaleMs={scaleMs} />
        ))}
      </tbody>
    </table>
  );
}

/** Depth from which calls are not indented further. */
const MAX_INDENT = 4;

function CallRow({ call, depth, scaleMs }: { call: FinishedCall; depth: number; scaleMs: number }) {
  const { me } = useSigned();
  return (
    <tr>
      <td className={`lead nested-${Math.min(MAX_INDENT, depth)}`}>
        <a href={toAddress('calls', call.call_id)}>
          {call.tool}
          <span className="visually-hidden"> call {call.call_id}</span>
        </a>
      </td>
      <td data-label="Status">
        <CallStatusBadge status={call.status} code={call.code} />
      </td>
      <td data-label="Ended" className="numbers ended" title={dateTime(call.ended_at)}>
        {isToday(call.ended_at) ? clockTime(call.ended_at) : dateTime(call.ended_at)}
      </td>
      {me.operator && (
        <td className="desk-only">
          <a href={toAddress('tenants', call.tenant_id)}>{call.tenant_id}</a>
        </td>
      )}
      <td data-label="User" className="caller">
        {call.user_id}
      </td>
      <td className="figure desk-only">{call.attempts}</td>
      <td data-label="Cost" className="figure cost">
        {money(call.cost_usd)}
      </td>
      <td className="desk-only">
        <span className="call-stages">
          <Stages stages={call.stages} scaleMs={scaleMs} />
        </span>
      </td>
      <td data-label="Duration" className="figure duration">
        {duration(call.duration_ms)}
      </td>
    </tr>
  );
}

const isToday = (instant: string): boolean => new Date(instant).toDateString() === new Date().toDateString();
