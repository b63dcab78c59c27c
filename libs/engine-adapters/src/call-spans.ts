import { CATALOGUE, toToolError, toUsd, type CallResult, type Json } from '@toolfleet/contracts';
import { chargedMicroUsd, recordedTool, redactCall, Tracer, type ActiveCall } from '@toolfleet/engine';
import {
  ATTR,
  EXECUTE_TOOL,
  failSpan,
  inSpan,
  redact,
  redactSecretFields,
  type RecordedSpan,
} from '@toolfleet/telemetry';
import { toToolType } from './tool-labels.js';

/** Span of a call that is checked but not run: a dry run, or a call before it is queued. */
const ADMIT_TOOL = 'admit_tool';
/** The documented name of the span of a call, as an attribute: its name follows the conventions and has the tool. */
const SPAN = { 'tool.span': 'tool_execution' };
/** Longest recorded arguments or results in UTF-16 units; the limit of every attribute. */
const MAX_CONTENT = 2_048;
/** Longest recorded description. */
const MAX_DESCRIPTION = 256;

/**
 * Records one OpenTelemetry span per call, `execute_tool {tool}` of the GenAI conventions, with additional attributes (`tool.*`, `call.id`,
 * `error.code`). Unrecorded calls cost one function call.
 */
export class CallSpans extends Tracer {
  /** @param recordsContent whether spans hold the arguments and results of calls */
  constructor(private readonly recordsContent = false) {
    super();
  }

  override trace(active: ActiveCall, work: () => Promise<CallResult>): Promise<CallResult> {
    const { kind } = active.request.mode;
    const runs = kind !== 'admit' && kind !== 'dry';
    return inSpan(runs ? EXECUTE_TOOL : ADMIT_TOOL, {}, (span) =>
      span ? this.#record(span, active, runs, work) : work(),
    );
  }

  async #record(
    span: RecordedSpan,
    active: ActiveCall,
    runs: boolean,
    work: () => Promise<CallResult>,
  ): Promise<CallResult> {
    try {
      const result = await work();
      span.setAttributes({
        'tool.success': result.ok,
        'tool.cost_usd': toUsd(chargedMicroUsd(result)),
        'tool.provenance': result.provenance,
        'tool.attempts': result.attempts,
      });
      const { failure } = result;
      if (failure) {
        span.setAttribute('error.code', failure.code);
        failSpan(span, { type: failure.errorType });
      } else if (this.recordsContent && runs) {
        span.setAttribute(ATTR.toolCallResult, toContent(result.output));
      }
      return result;
    } catch (thrown) {
      const error = toToolError(thrown);
      span.setAttributes({
        'tool.success': false,
        'tool.cost_usd': 0,
        'error.code': error.code,
      });
      failSpan(span, { type: CATALOGUE[error.code].class, message: redactCall(error.message, active) });
      throw error;
    } finally {
      this.#describe(span, active, runs);
    }
  }

  /** Adds the attributes of the call at its end, when most are known. */
  #describe(span: RecordedSpan, active: ActiveCall, runs: boolean): void {
    const { request, tool } = active;
    span.setAttributes({
      'tool.name': tool ? request.target.toolName : recordedTool(active),
      'call.id': request.callId,
    });
    if (tool) {
      // The name of an unknown tool is the caller's choice and would make the number of span names unbounded.
      span.updateName(`${runs ? EXECUTE_TOOL : ADMIT_TOOL} ${tool.name}`);
      span.setAttribute('tool.category', tool.category);
    }
    if (!runs) return;
    span.setAttributes({
      ...SPAN,
      [ATTR.operationName]: EXECUTE_TOOL,
      [ATTR.toolName]: recordedTool(active),
      [ATTR.toolCallId]: request.callId,
    });
    if (tool) {
      span.setAttributes({
        [ATTR.toolType]: toToolType(tool),
        [ATTR.toolDescription]: tool.description.slice(0, MAX_DESCRIPTION),
      });
    }
    const { session_id: session } = request.context;
    if (request.agentId !== undefined) span.setAttribute(ATTR.agentId, request.agentId);
    if (typeof session === 'string') span.setAttribute(ATTR.conversationId, session);
    // Not the unchecked arguments: they may be nested to any depth.
    if (this.recordsContent && active.arguments) span.setAttribute(ATTR.toolCallArguments, toContent(active.arguments));
  }
}

/** JSON without secrets, cut. Secrets go first: a part of one would not be recognized. */
function toContent(value: Json): string {
  const { content } = redactSecretFields({ content: value });
  return redact(JSON.stringify(content)).slice(0, MAX_CONTENT);
}
