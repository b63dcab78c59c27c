import type { CallBody, JsonObject } from '@toolfleet/client';
import { duration, money, pretty } from '../format.js';
import { asObject } from '../schema/form.js';
import { toAddress } from '../router.js';
import { Badge, Card, ErrorNotice, Notice, Snippet } from '../ui/components.js';
import { ResultFiles } from '../ui/result-files.js';
import { Stages } from '../ui/meters.js';
import type { OutcomeState } from './follow-call.js';

/** State of a call: running, refused, failed in the tool, or its result. `isPage`: on the page of the call itself. */
export function CallOutcome({
  state,
  tool,
  withTiming = true,
  isPage = false,
}: {
  state: OutcomeState;
  tool: string;
  withTiming?: boolean;
  isPage?: boolean;
}) {
  return (
    <div aria-live="polite" className="stack">
      {state.phase === 'running' && (
        <Notice title="Running…">
          {state.callId !== undefined && !isPage && <CallLink id={state.callId} />}
          {state.progress.map((line, index) => (
            <span key={index} className="small">
              {line}
            </span>
          ))}
        </Notice>
      )}
      {state.phase === 'refused' && <ErrorNotice error={state.error} />}
      {state.phase === 'withheld' && (
        <Notice title={`The call ended: ${state.status}`}>
          <span>{state.why}</span>
          {state.show && <button onClick={state.show}>Show the result</button>}
        </Notice>
      )}
      {state.phase === 'ended' && <Ended ended={state} tool={tool} withTiming={withTiming} isPage={isPage} />}
    </div>
  );
}

const CallLink = ({ id }: { id: string }) => (
  <a className="small wrap" href={toAddress('calls', id)}>
    call {id}
  </a>
);

type EndedState = Extract<OutcomeState, { phase: 'ended' }>;

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
    <Card
      label="Result"
      aside={
        <>
          <OutcomeBadges body={body} />
          <span className="soft small numbers">
            {duration(body.execution_time_ms)} in the fleet
            {tookMs !== undefined && `, ${duration(tookMs)} until here`}
          </span>
        </>
      }
    >
      {!body.success && <Failure error={body.error} metadata={metadata} />}
      {withTiming && <Timing body={body} />}
      {metadata['dry_run'] === true ? <DryRun output={asObject(output)} /> : null}
      {output !== null && <Snippet title="Output" text={outputText} />}
      {text !== '' && text !== outputText && <Snippet title="Text for models" text={text} />}
      <ResultFiles body={body} tool={tool} />
      <p className="small soft row">
        {money(usage.cost_usd)} · {usage.tokens} tokens
        {!isPage && metadata['dry_run'] !== true && <CallLink id={body.call_id} />}
      </p>
    </Card>
  );
}

function OutcomeBadges({ body }: { body: CallBody }) {
  const { dry_run: dryRun, provenance } = body.metadata;
  return (
    <span className="row">
      <OutcomeBadge body={body} />
      {dryRun === true && <Badge tone="accent">dry run</Badge>}
      {typeof provenance === 'string' && provenance !== 'live' && <Badge tone="warn">{provenance}</Badge>}
    </span>
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
    <Notice tone={code === 'CANCELLED' ? undefined : 'bad'} title={error ?? 'The tool failed'}>
      {typeof suggestion === 'string' && <span>{suggestion}</span>}
      <span className="small soft">
        {typeof code === 'string' ? code : 'TOOL_ERROR'}
        {retryable === true && ' · may be retried'}
      </span>
    </Notice>
  );
}

function Timing({ body: { metadata, execution_time_ms: totalMs } }: { body: CallBody }) {
  if (!metadata.timing) return null;
  const timing = asObject(metadata.timing);
  const [queue_ms = 0, wait_ms = 0, execute_ms = 0] = ['queue_ms', 'wait_ms', 'execute_ms'].map((stage) =>
    Number(timing[stage]),
  );
  const rest_ms = Math.max(0, totalMs - queue_ms - wait_ms - execute_ms);
  return <Stages withLegend stages={{ admit_ms: 0, wait_ms, queue_ms, execute_ms, rest_ms }} />;
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
