import type { FinishedCall } from '@toolfleet/client';
import { useEffect, useRef, useState } from 'react';
import { clockTime, dateTime, duration, money } from '../format.js';
import { toAddress, toFilteredAddress, usePlace, type PlaceFilter } from '../router.js';
import { useSigned } from '../session.js';
import { Badge, Empty, ErrorNotice, Head, Hidden, Notice } from '../ui/components.js';
import { Stages } from '../ui/meters.js';
import { Table, type TableColumn } from '../ui/table.js';
import { toCallQuery } from './call-filter.js';
import { CallFilterForm } from './call-filter-form.js';
import { toRows } from './call-list.js';
import { CallPage } from './call-page.js';
import { CallStatusBadge } from './call-status.js';
import { useCalls, type LiveCalls } from './live-calls.js';

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
  const toQuery = () => toCallQuery(JSON.parse(applied) as PlaceFilter, Date.now());
  const { loadOlder, ...live } = useCalls(applied, toQuery, following);
  const { calls } = live;
  return (
    <>
      <Head
        title="Calls"
        about={me.operator ? 'Finished calls of every tenant.' : `Finished calls of ${me.tenant_id}.`}
      >
        <LiveMark live={live} following={following} />
        <button onClick={() => setFollowing(!following)}>{following ? 'Pause' : 'Follow'}</button>
      </Head>
      <ErrorNotice error={live.error} />
      {live.state === 'off' && (
        <Notice title="This fleet does not record calls">
          <span>GATEWAY_CALL_SPOOL is 0. The log and the metrics have every call.</span>
        </Notice>
      )}
      <CallFilterForm filter={filter} tools={[...new Set(calls.map(({ tool }) => tool))].toSorted()} />
      <div className="card">{calls.length > 0 ? <CallTable calls={calls} /> : <Empty>{whyNone(live)}</Empty>}</div>
      {/* New calls would move the lines that the user reads. */}
      {live.next !== undefined && <OlderButton onStart={() => setFollowing(false)} loadOlder={loadOlder} />}
    </>
  );
}

function whyNone({ state, next }: LiveCalls): string {
  if (state === 'loading') return 'Loading…';
  return next === undefined
    ? 'No matching call. New calls appear here automatically.'
    : 'No matching call among the newest ones.';
}

function OlderButton({ onStart, loadOlder }: { onStart: () => void; loadOlder: () => Promise<void> }) {
  const [isLoading, setLoading] = useState(false);
  const showOlder = async () => {
    onStart();
    setLoading(true);
    await loadOlder();
    setLoading(false);
  };
  return (
    <p>
      <button disabled={isLoading} onClick={() => void showOlder()}>
        {isLoading ? 'Loading older calls…' : 'Show older calls'}
      </button>
    </p>
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

function LiveMark({ live: { state }, following }: { live: LiveCalls; following: boolean }) {
  if (!following) return <Badge>paused</Badge>;
  if (state === 'live')
    return (
      <Badge tone="good">
        <span className="pulse live" /> live
      </Badge>
    );
  return state === 'reconnecting' ? <Badge tone="warn">connecting again</Badge> : null;
}

/** Maximum indentation of nested calls. */
const MAX_INDENT = 4;

type CallColumn = TableColumn<ReturnType<typeof toRows>[number]>;

const FIRST_COLUMNS: readonly CallColumn[] = [
  {
    head: 'Tool',
    kind: 'lead',
    className: ({ depth }) => `nested-${Math.min(MAX_INDENT, depth)}`,
    cell: ({ call }) => (
      <a href={toAddress('calls', call.call_id)}>
        {call.tool}
        <Hidden>call {call.call_id}</Hidden>
      </a>
    ),
  },
  { head: 'Status', cell: ({ call }) => <CallStatusBadge status={call.status} code={call.code} /> },
  {
    head: 'Ended',
    className: 'numbers ended',
    title: ({ call }) => dateTime(call.ended_at),
    cell: ({ call: { ended_at: at } }) => (isToday(at) ? clockTime(at) : dateTime(at)),
  },
];
const TENANT_COLUMN: CallColumn = {
  head: 'Tenant',
  className: 'desk-only',
  labelled: false,
  cell: ({ call: { tenant_id: tenant } }) => <a href={toAddress('tenants', tenant)}>{tenant}</a>,
};
const COST_COLUMNS: readonly CallColumn[] = [
  { head: 'User', className: 'caller', cell: ({ call }) => call.user_id },
  { head: 'Attempts', kind: 'figure', className: 'desk-only', labelled: false, cell: ({ call }) => call.attempts },
  { head: 'Cost', kind: 'figure', className: 'cost', cell: ({ call }) => money(call.cost_usd) },
];

function CallTable({ calls }: { calls: readonly FinishedCall[] }) {
  const { me } = useSigned();
  const scaleMs = Math.max(...calls.map(({ duration_ms: ms }) => ms));
  return (
    <Table
      className="calls"
      caption="Finished calls, newest first; calls that a tool made are below its call"
      rows={toRows(calls)}
      rowKey={({ call }) => call.call_id}
      columns={[
        ...FIRST_COLUMNS,
        me.operator && TENANT_COLUMN,
        ...COST_COLUMNS,
        {
          head: 'Time',
          className: 'desk-only',
          labelled: false,
          cell: ({ call }) => (
            <span className="call-stages">
              <Stages stages={call.stages} scaleMs={scaleMs} />
            </span>
          ),
        },
        { head: 'Duration', kind: 'figure', className: 'duration', cell: ({ call }) => duration(call.duration_ms) },
      ]}
    />
  );
}

const isToday = (instant: string): boolean => new Date(instant).toDateString() === new Date().toDateString();
