import type { Json, QuarantinedTool } from '@toolfleet/client';
import { createContext, useContext, type ReactNode } from 'react';
import { useSigned } from '../session.js';
import { dateTime, pretty } from '../format.js';
import { ConfirmButton, Badge, Empty, ErrorNotice, Head, Loaded } from '../ui/components.js';
import { useAction } from '../use-action.js';
import { useQuery, type Query } from '../use-query.js';
import { lineDiff, visible } from './line-diff.js';
import { TriedCalls } from './tried-calls.js';

const EVERY_MS = 10_000;

const Approvals = createContext<Query<QuarantinedTool[]> | undefined>(undefined);

/** Loads the tools that await a decision once for the view and the number in the navigation, so these never differ. */
export function ApprovalsProvider({ children }: { children: ReactNode }) {
  const { api } = useSigned();
  return <Approvals value={useQuery('quarantine', api.quarantine, EVERY_MS)}>{children}</Approvals>;
}

/** Remote tools that changed since their approval or looked suspicious when first seen. */
export function QuarantineView() {
  const query = useContext(Approvals);
  if (!query) return null;
  return (
    <>
      <Head
        title="Approvals"
        about="Tools of MCP servers and API documents that changed after they were approved, or that looked suspicious when first seen. They cannot be called until an administrator decides."
      >
        <button onClick={query.refresh}>Refresh</button>
      </Head>
      <Loaded query={query}>
        {(tools) => {
          if (tools.length === 0) return <Empty>No tool awaits a decision.</Empty>;
          const open = tools.filter(({ rejected }) => !rejected);
          return (
            <div className="stack">
              {[...open, ...tools.filter(({ rejected }) => rejected)].map((tool) => (
                <Change key={`${tool.name} ${tool.pending_revision}`} tool={tool} onDecided={query.refresh} />
              ))}
            </div>
          );
        }}
      </Loaded>
    </>
  );
}

/** Number of pending decisions. */
export const useWaitingApprovals = (): number =>
  useContext(Approvals)?.data?.filter(({ rejected }) => !rejected).length ?? 0;

/** Number of pending decisions; nothing when there are none. */
export function WaitingApprovals() {
  const waiting = useWaitingApprovals();
  if (waiting === 0) return null;
  return (
    <Badge tone="warn">
      {waiting}
      <span className="visually-hidden"> waiting</span>
    </Badge>
  );
}

function Change({ tool, onDecided }: { tool: QuarantinedTool; onDecided: () => void }) {
  const { api } = useSigned();
  const { busy, error, act } = useAction(onDecided);
  const decide = (decision: 'approve' | 'reject') => act(() => api.decide(tool, decision));
  return (
    <article className="card stack" aria-label={tool.name}>
      <div className="row spread">
        <h2 className="wrap">{tool.name}</h2>
        <span className="row">
          <Badge>{tool.source.name}</Badge>
          {tool.approved_revision === null && <Badge tone="warn">never approved</Badge>}
          {tool.rejected ? <Badge tone="bad">rejected</Badge> : <Badge tone="warn">waits</Badge>}
        </span>
      </div>
      <p className="wrap">
        {tool.reason} <span className="soft small">since {dateTime(tool.since_at)}</span>
      </p>
      {tool.rejected && (
        <p className="small soft">
          Rejected by {tool.rejected.by} on {dateTime(tool.rejected.at)}. It stays out until its server serves something
          else, or it is approved after all.
        </p>
      )}
      {tool.diff.map(({ field, before, after }) => (
        <Difference key={field} field={field} before={before} after={after} />
      ))}
      {tool.diff_omitted && (
        <p className="small soft">Too many changes to show at once. Decide on the others, then refresh.</p>
      )}
      {tool.approved_revision !== null && <TriedCalls tool={tool} />}
      {error && <ErrorNotice error={error} />}
      <div className="row">
        <ConfirmButton
          question={`Let models use ${tool.name} as it is now?`}
          disabled={busy || tool.diff_omitted === true}
          onConfirm={() => void decide('approve')}
        >
          Approve
        </ConfirmButton>
        {!tool.rejected && (
          <ConfirmButton
            danger
            question={`Keep ${tool.name} out?`}
            disabled={busy}
            onConfirm={() => void decide('reject')}
          >
            Reject
          </ConfirmButton>
        )}
      </div>
    </article>
  );
}

const toText = (value: Json): string =>
  value === null ? '' : visible(typeof value === 'string' ? value : pretty(value));
const MARKS = { same: ' ', gone: '−', new: '+' } as const;

function Difference({ field, before, after }: { field: string; before: Json; after: Json }) {
  const lines = lineDiff(toText(before), toText(after)).filter(({ text, change }) => text !== '' || change === 'same');
  return (
    <div className="stack tight">
      <h3>{field.replaceAll('_', ' ')}</h3>
      <pre className="diff" tabIndex={0} aria-label={`Change of ${field}`}>
        {lines.map(({ change, text }, index) => (
          <div key={index} className={change === 'same' ? undefined : change}>
            <span className="visually-hidden">
              {change === 'gone' ? 'removed: ' : change === 'new' ? 'added: ' : ''}
            </span>
            <span aria-hidden="true">{MARKS[change]} </span>
            {text}
          </div>
        ))}
      </pre>
    </div>
  );
}
