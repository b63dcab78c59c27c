import type { CallBody, CallStages, JsonObject } from '@toolfleet/client';
import { duration, money, pretty } from '../format.js';
import { asObject } from '../schema/form.js';
import { Badge, ErrorNotice } from '../ui/components.js';
import { Stages } from '../ui/meters.js';
import type { CallState } from './use-call.js';

/** State of a call: running, refused, failed in the tool, or its result. */
export function CallOutcome({ state }: { state: CallState }) {
  return (
    <div aria-live="polite" className="stack">
      {state.phase === 'running' && (
        <div className="notice">
          <strong>Running…</strong>
          {state.callId !== undefined && <span className="small soft wrap">call {state.callId}</span>}
          {state.progress.map((line, index) => (
            <span key={index} className="small">
              {line}
            </span>
          ))}
        </div>
      )}
      {state.phase === 'refused' && <ErrorNotice error={state.error} />}
      {state.phase === 'ended' && <Ended body={state.body} status={state.status} tookMs={state.tookMs} />}
    </div>
  );
}

function Ended({ body, status, tookMs }: { body: CallBody; status: string | undefined; tookMs: number }) {
  const { metadata, usage, output, text } = body;
  const outputText = typeof output === 'string' ? output : pretty(output);
  return (
    <section className="card stack" aria-label="Result">
      <div className="row spread">
        <span className="row">
          {body.success ? <Badge tone="good">success</Badge> : <Badge tone="bad">failed</Badge>}
          {metadata['dry_run'] === true && <Badge tone="accent">dry run</Badge>}
          {status !== undefined && <Badge>{status}</Badge>}
          {typeof metadata['provenance'] === 'string' && metadata['provenance'] !== 'live' && (
            <Badge tone="warn">{metadata['provenance']}</Badge>
          )}
        </span>
        <span className="soft small numbers">
          {duration(body.execution_time_ms)} in the fleet, {duration(tookMs)} until here
        </span>
      </div>
      {!body.success && <Failure error={body.error} metadata={metadata} />}
      <Timing body={body} />
      {metadata['dry_run'] === true ? <DryRun output={asObject(output)} /> : null}
      {output !== null && (
        <div className="stack tight">
          <h3>Output</h3>
          <pre tabIndex={0} aria-label="Output">
            {outputText}
          </pre>
        </div>
      )}
      {text !== '' && text !== outputText && (
        <div className="stack tight">
          <h3>Text for models</h3>
          <pre tabIndex={0} aria-label="Text for models">
            {text}
          </pre>
        </div>
      )}
      <p className="small soft wrap">
        {money(usage.cost_usd)} · {usage.tokens} tokens · call {body.call_id}
      </p>
    </section>
  );
}

function Failure({ error, metadata }: { error: string | null; metadata: JsonObject }) {
  const { suggestion, code, retryable } = metadata;
  return (
    <div className="notice bad">
      <strong>{error ?? 'The tool failed'}</strong>
      {typeof suggestion === 'string' && <span>{suggestion}</span>}
      <span className="small soft">
        {typeof code === 'string' ? code : 'TOOL_ERROR'}
        {retryable === true && ' · may be retried'}
      </span>
    </div>
  );
}

function Timing({ body }: { body: CallBody }) {
  const { timing } = body.metadata;
  if (!timing) return null;
  const { queue_ms, wait_ms, execute_ms } = timing as unknown as Pick<
    CallStages,
    'queue_ms' | 'wait_ms' | 'execute_ms'
  >;
  const rest = Math.max(0, body.execution_time_ms - queue_ms - wait_ms - execute_ms);
  return <Stages withLegend stages={{ admit_ms: 0, wait_ms, queue_ms, execute_ms, rest_ms: rest }} />;
}

function DryRun({ output }: { output: JsonObject }) {
  const cost = asObject(output['cost']);
  const limits = asObject(output['limits']);
  return (
    <p className="small">
      Nothing was run. It would cost {money(Number(cost['cost_usd'] ?? 0))} (held:{' '}
      {money(Number(cost['reserved_usd'] ?? 0))})
      {typeof limits['rate_limit_remaining'] === 'number' &&
        `; ${limits['rate_limit_remaining']} calls left this minute`}
      .
    </p>
  );
}
