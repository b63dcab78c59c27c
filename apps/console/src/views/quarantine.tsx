import type { Json, QuarantinedTool } from '@toolfleet/client';
import { useRoute } from '../api/queries.js';
import { dateTime, pretty } from '../format.js';
import { useSigned } from '../session.js';
import { ActionButton, Badge, Empty, Head, Loaded, WaitingMark } from '../ui/components.js';
import { lineDiff, visible } from './line-diff.js';
import { TriedCalls } from './tried-calls.js';

const EVERY_MS = 10_000;

/** The tools that await a decision; nothing for callers who do not decide. */
function useQuarantine() {
  const { me } = useSigned();
  const enabled = me.rights.includes('approve_tools');
  return useRoute('GET /api/v1/quarantine', {}, { everyMs: EVERY_MS, enabled });
}

/** Number of pending decisions. */
export const useWaitingApprovals = (): number => useQuarantine().data?.filter(({ rejected }) => !rejected).length ?? 0;

/** Number of pending decisions; nothing when there are none. */
export const WaitingApprovals = () => <WaitingMark count={useWaitingApprovals()} />;

/** Remote tools that changed since their approval or looked suspicious when first seen. */
export const QuarantineView = () => (
  <>
    <Head
      title="Changed tools"
      about="Tools of MCP servers and API documents that changed after they were approved, or that looked suspicious when first seen. They cannot be called until an administrator decides."
      refreshes
    />
    <Loaded query={useQuarantine()}>
      {(tools) => {
        if (tools.length === 0) return <Empty>No tool awaits a decision.</Empty>;
        return (
          <div className="stack">
            {tools
              .toSorted((one, other) => Number(!!one.rejected) - Number(!!other.rejected))
              .map((tool) => (
                <Change key={`${tool.name} ${tool.pending_revision}`} tool={tool} />
              ))}
          </div>
        );
      }}
    </Loaded>
  </>
);

const Change = ({ tool }: { tool: QuarantinedTool }) => (
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
    <Decide tool={tool} />
  </article>
);

/** Approves or rejects the revision that is shown. */
function Decide({ tool: { name, pending_revision, rejected, diff_omitted: omitted } }: { tool: QuarantinedTool }) {
  const { api } = useSigned();
  const request = { path: { name }, body: { pending_revision } };
  return (
    <div className="row">
      <ActionButton
        question={`Let models use ${name} as it is now?`}
        disabled={omitted === true}
        work={() => api.request('POST /api/v1/quarantine/{name}/approve', request)}
      >
        Approve
      </ActionButton>
      {!rejected && (
        <ActionButton
          danger
          question={`Keep ${name} out?`}
          work={() => api.request('POST /api/v1/quarantine/{name}/reject', request)}
        >
          Reject
        </ActionButton>
      )}
    </div>
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
