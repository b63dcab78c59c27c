import type { CallBody, CallStages, JsonObject } from '@toolfleet/client';
import { duration, money, pretty } from '../format.js';
import { asObject } from '../schema/form.js';
import { toAddress } from '../router.js';
import { Badge, ErrorNotice } from '../ui/components.js';
import { ResultFiles } from '../ui/result-files.js';
import { Stages } from '../ui/meters.js';
import type { CallState } from './follow-call.js';

/** State of a call: running, refused, failed in the tool, or its result. `isPage`: on the page of the call itself. */
export function CallOutcome({
  state,
  tool,
  withTiming = true,
  isPage = false,
}: {
  state: CallState;
  tool: string;
  withTiming?: boolean;
  isPage?: boolean;
}) {
  return (
    <div aria-live="polite" className="stack">
      {state.phase === 'running' && (
        <div className="notice">
          <strong>Running…</strong>
          {state.callId !== undefined && !isPage && <CallLink id={state.callId} />}
          {state.progress.map((line, index) => (
            <span key={index} className="small">
              {line}
            </span>
          ))}
        </div>
      )}
      {state.phase === 'refused' && <ErrorNotice error={state.error} />}
      {state.phase === 'withheld' && (
        <div className="notice">
          <strong>The call ended: {state.status}</strong>
          <span>{state.why}</span>
          {state.show && <button onClick={state.show}>Show the result</button>}
        </div>
      )}
      {state.phase === 'ended' && <Ended ended={state} tool={tool} withTiming={withTiming} isPage={isPage} />}
    </div>
  );
}

function CallLink({ id }: { id: string }) {
  return (
    <a className="small wrap" href={toAddress('calls', id)}>
      call {id}
    </a>
  );
}

type EndedState = Extract<CallState, { phase: 'ended' }>;

function Ended({
  ended: { body, tookMs },
  tool,
  withTiming,
  isPage,
}: {
  ended: EndedState;
  tool: string;
  withTiming: boolean;
  isPage: boolean;
}) {
  const { metadata, usage, output, text } = body;
  const outputText = typeof output === 'string' ? output : pretty(output);
  return (
    <section className="card stack" aria-label="Result">
      <div className="row spread">
        <span className="row">
          <OutcomeBadge body={body} />
          {metadata['dry_run'] === true && <Badge tone="accent">dry run</Badge>}
          {typeof metadata['provenance'] === 'string' && metadata['provenance'] !== 'live' && (
            <Badge tone="warn">{metadata['provenance']}</Badge>
          )}
        </span>
        <span className="soft small numbers">
          {duration(body.execution_time_ms)} in the fleet
          {tookMs !== undefined && `, ${duration(tookMs)} until here`}
        </span>
      </div>
      {!body.success && <Failure error={body.error} metadata={metadata} />}
      {withTiming && <Timing body={body} />}
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
      <ResultFiles body={body} tool={tool} />
      <p className="small soft row">
        {money(usage.cost_usd)} · {usage.tokens} tokens
        {!isPage && metadata['dry_run'] !== true && <CallLink id={body.call_id} />}
      </p>
    </section>
  );
}

function OutcomeBadge({ body: { success, metadata } }: { body: CallBody }) {
  if (success) return <Badge tone="good">success</Badge>;
  if (metadata['code'] === 'CANCELLED') return <Badge>cancelled</Badge>;
  if (metadata['code'] === 'OUTCOME_UNKNOWN') return <Badge tone="warn">outcome unknown</Badge>;
  return <Badge tone="bad">failed</Badge>;
}

function Failure({ error, metadata }: { error: string | null; metadata: JsonObject }) {
  const { suggestion, code, retryable } = metadata;
  return (
    <div className={code === 'CANCELLED' ? 'notice' : 'notice bad'}>
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
