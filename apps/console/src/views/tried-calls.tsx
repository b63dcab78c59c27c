import type { QuarantinedTool, RouteAnswer, TriedCall } from '@toolfleet/client';
import { useState } from 'react';
import { RUN_TIMEOUT_MS } from '../api/client.js';
import { dateTime, pretty } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { ActionButton } from '../ui/components.js';
import { visible } from './line-diff.js';

/** How the results of the last calls without effects change with a definition that awaits an approval. They run again on request. */
export function TriedCalls({ tool: { name, pending_revision } }: { tool: QuarantinedTool }) {
  const { api } = useSigned();
  const [tried, setTried] = useState<RouteAnswer<'POST /api/v1/quarantine/{name}/replay'>>();
  const request = { path: { name }, body: { pending_revision }, timeoutMs: RUN_TIMEOUT_MS };
  const run = async () => setTried(await api.request('POST /api/v1/quarantine/{name}/replay', request));
  return (
    <div className="stack tight">
      <h3>results</h3>
      <span>
        <ActionButton busyText="Running …" work={run}>
          Compare results of the last calls
        </ActionButton>
      </span>
      {tried?.note !== undefined && <p className="soft">{tried.note}.</p>}
      {tried?.replays.map((call) => (
        <Tried key={call.replay_of} call={call} />
      ))}
    </div>
  );
}

const Tried = ({ call: { replay_of: id, ended_at: at, changes, not_compared: why } }: { call: TriedCall }) => (
  <div className="stack tight">
    <span className="small">
      <a href={toAddress('calls', id)}>Call of {dateTime(at)}</a>
      {why !== undefined && ` – ${why}`}
      {changes?.length === 0 && ' – same result'}
    </span>
    {changes && changes.length > 0 && (
      <pre className="diff" tabIndex={0} aria-label={`Change of the result of call ${id}`}>
        {changes.map(({ path, before, after }) => (
          <div key={path}>
            <div>{path || 'result'}</div>
            {before !== undefined && <div className="gone">− {visible(pretty(before))}</div>}
            {after !== undefined && <div className="new">+ {visible(pretty(after))}</div>}
          </div>
        ))}
      </pre>
    )}
  </div>
);
