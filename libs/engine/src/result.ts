import {
  failedWith,
  isToolError,
  succeeded,
  CATALOGUE,
  docUrl,
  ToolError,
  toToolError,
  toUsd,
  type CallBody,
  type CallResult,
  type ExecutionFailure,
  type Failed,
  jsonObject,
  type JsonObject,
} from '@toolfleet/contracts';
import { toFailure } from '@toolfleet/contracts/execution';
import { SIZES } from '@toolfleet/contracts/subjects';
import type { ActiveCall } from './call.js';
import { step, type Step } from './step.js';
import { shownTokens } from './charge.js';
import type { EngineSettings } from './settings.js';

/** Longest `text` of a response, in UTF-16 units. */
const MAX_TEXT_CHARS = 6_000;
/** Longest name of a tool in an explanation; an item of a batch may send a longer text as its name. */
const MAX_TOOL_CHARS = 200;

/** A failed result without output. `error` may be anything that was thrown; unknown errors become INTERNAL. */
export function failed(error: unknown, fields: Partial<Omit<Failed, 'ok' | 'failure'>> = {}): Failed {
  return failedWith(toFailure(toToolError(error)), fields);
}

/** True for a failure that refused the call before its tool ran; entry points report it as an error status. */
export function isRefusal(failure: ExecutionFailure): boolean {
  return CATALOGUE[failure.code].origin === 'request';
}

/** Turns the outcome of an admitted call into its answer. @throws ToolError as `finishCall` */
export function finish(): Step {
  return step('finish', (next) => async (call) => finishCall(call.active, await next(call)));
}

/**
 * Ends a call: adds conversions, dropped arguments and waiting time to its result.
 * @throws ToolError when the failure refused the call before its tool ran
 */
function finishCall({ coercions, dropped, waitedMs }: ActiveCall, result: CallResult): CallResult {
  const { failure } = result;
  if (failure && isRefusal(failure)) {
    const { message, details, facts, retryAfterMs } = failure;
    throw new ToolError(failure.code, { message, details, facts, retryAfterMs });
  }
  if (coercions.length === 0 && dropped.length === 0 && waitedMs === 0) return result;
  const metadata: JsonObject = { ...result.metadata };
  if (coercions.length > 0) metadata.coercions = coercions.map((coercion) => ({ ...coercion }));
  if (dropped.length > 0) metadata.dropped_arguments = [...dropped];
  return { ...result, metadata, timing: { ...result.timing, wait_ms: result.timing.wait_ms + waitedMs } };
}

/**
 * Renders a finished call for HTTP and NATS. Its metadata tells where the result comes from, how many attempts were made and
 * where the time went; for a failure also its code, whether a retry may help and what to do.
 * @param durationMs of the whole call
 * @param maxContentBytes of rich content; more is left out and noted as `content_omitted`
 */
export function callBody(
  callId: string,
  result: CallResult,
  durationMs: number,
  maxContentBytes: number = SIZES.toolResult,
): CallBody {
  const { text, content } = result;
  const bytes = contentBytes(result);
  const fits = bytes <= maxContentBytes;
  const metadata = toMetadata(result);
  if (!fits) metadata.content_omitted = { blocks: content?.length ?? 0, bytes, limit: maxContentBytes };
  const body: CallBody = {
    success: result.ok,
    output: result.output,
    text: text.length > MAX_TEXT_CHARS ? `${text.slice(0, MAX_TEXT_CHARS - 1)}…` : text,
    error: result.ok ? null : (result.failure?.message ?? 'The tool failed'),
    metadata,
    execution_time_ms: Math.round(durationMs),
    usage: toShownUsage(result),
    call_id: callId,
  };
  if (fits && content?.length) body.content = content;
  return body;
}

/** Bytes of the rich content as JSON; 0 without any. */
export function contentBytes({ content }: Pick<CallResult, 'content'>): number {
  return content?.length ? Buffer.byteLength(JSON.stringify(content)) : 0;
}

function toShownUsage(result: CallResult): CallBody['usage'] {
  const {
    usage: { microUsd },
    replayOf,
  } = result;
  const usage: CallBody['usage'] = { tokens: shownTokens(result), cost_usd: toUsd(microUsd) };
  if (replayOf !== undefined) usage.replayed = true;
  return usage;
}

function toMetadata(result: CallResult): JsonObject {
  const { failure, timing } = result;
  const metadata: JsonObject = {
    ...shownMetadata(result),
    provenance: result.provenance,
    attempts: result.attempts,
    timing: {
      queue_ms: Math.round(timing.queue_ms),
      wait_ms: Math.round(timing.wait_ms),
      execute_ms: Math.round(timing.execute_ms),
    },
  };
  return failure ? { ...metadata, ...failureMetadata(failure) } : metadata;
}

/** The tool's report about a result, and the engine's facts about its origin. */
export function shownMetadata({ metadata, replaced, replayOf }: CallResult): JsonObject {
  if (!replaced && replayOf === undefined) return metadata;
  return jsonObject({
    ...metadata,
    replaced_code: replaced?.code,
    replaced_error: replaced?.message,
    idempotent_replay: replayOf === undefined ? undefined : true,
    replayed_call_id: replayOf,
  });
}

function failureMetadata({ code, errorType, retryable, retryAfterMs, details }: ExecutionFailure): JsonObject {
  const metadata: JsonObject = {
    code,
    error_type: errorType,
    retryable,
    chargeable: CATALOGUE[code].charge !== 'nothing',
    suggestion: CATALOGUE[code].hint,
    doc_url: docUrl(code),
  };
  if (retryAfterMs !== undefined) metadata.retry_after_ms = retryAfterMs;
  if (details) metadata.details = details;
  return metadata;
}

/**
 * Shows callers that expect no failures the explanation of one as a success, with GRACEFUL_ERROR_AS_SUCCESS. Only the answer
 * changes: log, ledger, metrics, caches and journal have the failure.
 * @throws ToolError when the call was refused for another reason than that its tool could not be reached
 */
export function gracefulErrors({ settings }: { settings: EngineSettings }): Step<ActiveCall> {
  if (!settings.gracefulErrorAsSuccess) return step('graceful errors');
  return step('graceful errors', (next) => (active) => shownAsSuccess(active, next(active)));
}

async function shownAsSuccess({ request }: ActiveCall, run: Promise<CallResult>): Promise<CallResult> {
  const result = await run.catch((thrown: unknown) => {
    // Of the refusals only those that mean "the tool could not be reached".
    if (!isToolError(thrown) || CATALOGUE[thrown.code].replaceable !== true) throw thrown;
    return explainFailure(request.target.view?.shownName ?? request.target.toolName, failed(thrown));
  });
  if (result.ok) return result;
  const { ok: _ok, failure, ...outcome } = result;
  const metadata = { ...outcome.metadata, ...failureMetadata(failure), fallback: 'graceful_error' };
  return succeeded({ ...outcome, metadata });
}

/**
 * Explains a failure to a model: `text` becomes JSON with the class of the error, the tool, the message and the hint of its code. The
 * message also has the tool's own text, such as a traceback.
 */
export function explainFailure<R extends CallResult>(tool: string, result: R): R {
  const { failure, text } = result;
  if (!failure) return result;
  const { code, errorType, message } = failure;
  const repeats = text.includes(message) ? text : message.includes(text) ? message : undefined;
  const words = repeats ?? `${message}\n${text}`;
  const render = (shown: string) =>
    JSON.stringify({
      error: errorType,
      tool: tool.slice(0, MAX_TOOL_CHARS),
      message: shown,
      suggestion: CATALOGUE[code].hint,
    });
  let rendered = render(words);
  // Escaping makes a message longer by an unknown factor, so it is cut in proportion until the JSON fits.
  for (let kept = words.length; rendered.length > MAX_TEXT_CHARS && kept > 0;) {
    kept = Math.floor(((kept - 1) * MAX_TEXT_CHARS) / rendered.length);
    // Half of a surrogate pair would be escaped.
    rendered = render(`${words.slice(0, kept).replace(/[\uD800-\uDBFF]$/, '')}…`);
  }
  return { ...result, text: rendered };
}
