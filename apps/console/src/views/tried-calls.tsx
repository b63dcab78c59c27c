import type { QuarantinedTool, RouteAnswer, TriedCall } from '@toolfleet/client';
import { useState } from 'react';
import { dateTime, pretty } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { ErrorNotice } from '../ui/components.js';
import { visible } from './line-diff.js';
import { useAction } from '../use-action.js';

/** How the results of the last calls without effects change with a definition that awaits an approval. They run again on request. */
export function TriedCalls({ tool }: { tool: QuarantinedTool }) {
  const { api } = useSigned();
  const [tried, setTried] = useState<RouteAnswer<'POST /api/v1/quarantine/{name}/replay'>>();
  const { busy, error, act } = useAction();
  const run = () => act(async () => setTried(await api.tryPending(tool)));
  return (
    <div className="stack tight">
      <h3>results</h3>
      <span>
        <button disabled={busy} onClick={() => void run()}>
          {busy ? 'Running …' : 'Compare results of the last calls'}
        </button>
      </span>
      {error && <ErrorNotice error={error} />}
      {tried?.note !== undefined && <p className="soft">{tried.note}.</p>}
      {tried?.replays.map((call) => (
        <Tried key={call.replay_of} call={call} />
      ))}
    </div>
  );
}

function Tried({ call: { replay_of: id, ended_at: at, changes, not_compared: why } }: { call: TriedCall }) {
  return (
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
}
