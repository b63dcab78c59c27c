import type { RouteRequest, RuleTestResult } from '@toolfleet/client';
import { useState } from 'react';
import { RUN_TIMEOUT_MS } from '../api/client.js';
import { count, dateTime } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { ActionButton, Hidden } from '../ui/components.js';

type TestedRule = RouteRequest<'POST /api/v1/rules/test'>['body'];

/**
 * A button that shows the effect of a rule on the recorded calls of the last 30 days.
 * @param rule the rule as it is now; undefined when it cannot be tested
 */
export function TestRule({ rule, disabled = false }: { rule: () => TestedRule | undefined; disabled?: boolean }) {
  const { api, me } = useSigned();
  const [result, setResult] = useState<RuleTestResult>();
  if (!me.rights.includes('all_calls')) return null;
  const test = async () => {
    const body = rule();
    setResult(undefined);
    if (body) setResult(await api.request('POST /api/v1/rules/test', { body, timeoutMs: RUN_TIMEOUT_MS }));
  };
  return (
    <div className="stack tight">
      <span>
        <ActionButton busyText="Testing …" disabled={disabled} work={test}>
          Test with recorded calls
        </ActionButton>
      </span>
      <div role="status">{result && <Outcome result={result} />}</div>
    </div>
  );
}

function Outcome({ result }: { result: RuleTestResult }) {
  const { calls, refused, undecidable, unrecorded, reasons, examples, notes, from } = result;
  return (
    <div className={`notice ${refused > 0 ? 'warn' : ''}`}>
      <strong>
        Would have refused {count(refused)} of {count(calls)} calls since {dateTime(from)}
      </strong>
      {reasons.map(({ reason, calls: times }) => (
        <span key={reason}>
          {reason} ({count(times)})
        </span>
      ))}
      {undecidable > 0 && (
        <span>
          {count(undecidable)} not decidable, because it is not recorded:{' '}
          {unrecorded.map(({ fact }) => fact).join(', ')}
        </span>
      )}
      {examples.length > 0 && (
        <span className="row">
          {examples.slice(0, 5).map(({ call_id: id, verdict, tool }) => (
            <a key={id} href={toAddress('calls', id)}>
              {verdict}: {tool}
              <Hidden>call {id}</Hidden>
            </a>
          ))}
        </span>
      )}
      <span className="small soft">{notes.join('. ')}.</span>
    </div>
  );
}
