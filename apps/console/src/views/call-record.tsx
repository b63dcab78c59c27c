import { CATALOGUE, docUrl, isErrorCode, type FinishedCall } from '@toolfleet/client';
import { duration } from '../format.js';
import { toAddress } from '../router.js';
import { Hidden, Notice } from '../ui/components.js';
import { CallStatusBadge } from './call-status.js';
import { toTimeline, type TimelineRow } from './call-timeline.js';

/** Where the limit, rule or service that a code names is shown: the view and its title. */
const DECIDED_IN: Readonly<Record<string, readonly [view: string, title: string]>> = {
  RATE_LIMITED: ['breakers', 'Breakers and limits'],
  BREAKER_OPEN: ['breakers', 'Breakers and limits'],
  BUDGET_EXCEEDED: ['budgets', 'Budgets and cost'],
  TOKEN_LIMIT_EXCEEDED: ['budgets', 'Budgets and cost'],
  TOOL_QUARANTINED: ['quarantine', 'Changed tools'],
  QUEUE_FULL: ['queues', 'Queues and workers'],
  EXECUTOR_UNAVAILABLE: ['queues', 'Queues and workers'],
};

/** Why a call did not succeed: the message, what to do, where the limit is shown, and the page of its code. */
export function CallFailure({
  call: { status, code = '', error, policy, policy_rules: rules },
}: {
  call: FinishedCall;
}) {
  const [view, title] = DECIDED_IN[code] ?? [];
  return (
    <Notice tone={status === 'refused' || status === 'cancelled' ? 'warn' : 'bad'} title={error ?? code}>
      {isErrorCode(code) && (
        <span>
          {CATALOGUE[code].hint} <a href={docUrl(code)}>{code}</a>
        </span>
      )}
      {policy === 'denied' && rules && (
        <span>
          Decided by <code>{rules.join(', ')}</code> of the policy.
        </span>
      )}
      {view !== undefined && (
        <span>
          See <a href={toAddress(view)}>{title}</a>.
        </span>
      )}
    </Notice>
  );
}

/** Stages of a call, and the calls that its tool made, as bars on one scale. */
export function CallTimeline({ call, made }: { call: FinishedCall; made: readonly FinishedCall[] }) {
  const { stages, made: calls, totalMs } = toTimeline(call, made);
  return (
    <>
      <TimelineRows rows={stages} totalMs={totalMs} />
      {calls.length > 0 && (
        <div className="stack tight">
          <h3>Calls that it made</h3>
          <TimelineRows rows={calls} totalMs={totalMs} />
        </div>
      )}
    </>
  );
}

const TimelineRows = ({ rows, totalMs }: { rows: readonly TimelineRow[]; totalMs: number }) => (
  <ol className="timeline">
    {rows.map(({ call, name, color, startMs, ms }) => (
      <li key={call?.call_id ?? name}>
        {call ? (
          <span className="row">
            <a href={toAddress('calls', call.call_id)}>
              {call.tool}
              <Hidden>call {call.call_id}</Hidden>
            </a>
            {call.status !== 'success' && <CallStatusBadge status={call.status} code={call.code} />}
          </span>
        ) : (
          <span>{name}</span>
        )}
        <span className="numbers">{duration(ms)}</span>
        <svg className="stages" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
          <rect className="track" width="100" height="10" />
          <rect
            className={color ?? 's4'}
            x={Math.min(99.4, (startMs / totalMs) * 100)}
            width={Math.max(0.6, (ms / totalMs) * 100)}
            height="10"
          />
        </svg>
      </li>
    ))}
  </ol>
);

/** The attempts of a call that was tried more than once, and why those before the last one failed. */
export function Attempts({ call: { retried = [], attempts, status, error } }: { call: FinishedCall }) {
  if (retried.length === 0) return null;
  return (
    <div className="stack tight">
      <h3>Attempts</h3>
      <ol className="stack tight small wrap">
        {retried.map(({ attempt, error: failure, delay_ms: waited }) => (
          <li key={attempt}>
            {attempt}. {failure} <span className="soft">— tried again after {duration(waited)}</span>
          </li>
        ))}
        <li>
          {attempts}. {status === 'success' ? 'success' : (error ?? 'failed')}
        </li>
      </ol>
    </div>
  );
}
