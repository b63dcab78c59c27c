import {
  CATALOGUE,
  jsonObject,
  ToolError,
  type ContentBlock,
  type ErrorCode,
  type ExecutionFailure,
  type Json,
  type JsonObject,
  type Milliseconds,
} from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import { resultExcess } from '@toolfleet/contracts/json-text';
import { SIZES } from '@toolfleet/contracts/subjects';
import type { RunReply, RunStatus } from '@toolfleet/wasi-python';
import { fileBlock, fileFacts, recordTable } from './run-files.js';

/** Converts the reply of a run to the ExecResponse of its attempt: an error code per status, and a text for the model. */

const CODES: Readonly<Record<Exclude<RunStatus, 'ok'>, ErrorCode>> = {
  error: 'SANDBOX_ERROR',
  exit: 'SANDBOX_ERROR',
  policy: 'SANDBOX_POLICY',
  memory: 'MEMORY_EXCEEDED',
  output_limit: 'OUTPUT_LIMIT',
  timeout: 'ATTEMPT_TIMED_OUT',
  crashed: 'SANDBOX_CRASHED',
  cancelled: 'CANCELLED',
};

/** Longest `CallResult.text`. */
const MAX_TEXT = 6_000;
/** Characters kept of each stream if the whole output is too large for a message. */
const KEPT_CHARS = 64 * 1024;
/** Reserved for the envelope around the output. */
const ENVELOPE_BYTES = 64 * 1024;

/**
 * The reply of a run that its job stopped: a deadline of the call that passes during the attempt counts as the attempt's
 * time-out. Other replies are returned unchanged.
 * @throws ToolError SERVICE_UNAVAILABLE at shutdown, so that another worker runs the job
 */
export function endOfRun(reply: RunReply, { reason }: Pick<AbortSignal, 'reason'>): RunReply {
  if (reply.status !== 'cancelled' || !(reason instanceof ToolError)) return reply;
  if (reason.code === 'SERVICE_UNAVAILABLE') throw reason;
  const isLate = reason.code === 'DEADLINE_EXCEEDED';
  return isLate ? { ...reply, status: 'timeout', error: { ...reply.error!, type: 'Timeout' } } : reply;
}

/** Members of the response besides the reply of the run. */
export interface RunContext {
  queueMs: Milliseconds;
  strictness: string;
  interpreter: string;
  sessionId: string | null;
  tool: string;
  /** The time that the run had, for a run that ended with the deadline of its call. */
  timeoutMs: Milliseconds;
}

/**
 * Builds the response of an attempt; `output` has stdout and stderr even if the run failed. A response too large for a
 * message fails with RESULT_TOO_LARGE and keeps the start of both streams.
 */
export function toExecResponse(run: RunReply, context: RunContext): ExecResponse {
  const output = toOutput(run, context.queueMs);
  const { sessionId } = context;
  const metadata = jsonObject({
    strictness: context.strictness,
    interpreter: context.interpreter,
    status: run.status,
    exit_code: run.exitCode,
    session_id: sessionId ?? undefined,
    session_kept: sessionId === null ? undefined : run.session !== undefined,
    session_note: run.sessionNote,
    timeout: run.status === 'timeout' || undefined,
    files_omitted: run.filesOmitted?.length ? run.filesOmitted : undefined,
  });
  const timing = { execute_ms: Math.round(run.usage.wallMs), queue_ms: Math.round(context.queueMs) };
  const failure = toFailure(run, context);
  const text = toText(run, failure);
  const response: ExecResponse = {
    ok: failure === undefined,
    output,
    text,
    content: toContent(run, text),
    metadata,
    failure,
    ...timing,
  };
  const json = Buffer.from(JSON.stringify(response));
  const excess =
    json.length > SIZES.toolResult - ENVELOPE_BYTES
      ? `the output has ${json.length} bytes, but at most ${SIZES.toolResult - ENVELOPE_BYTES} are allowed: print or return less`
      : resultExcess(json);
  return excess === undefined ? response : tooLarge(response, run, output, excess);
}

/** Files that the run wrote and the HTML of its value, after its text; undefined if there are none. */
function toContent({ files = [], html }: RunReply, text: string): ContentBlock[] | undefined {
  const page = html === undefined ? [] : [{ name: 'result.html', bytes: Buffer.from(html) }];
  const blocks = [...page, ...files].map(fileBlock);
  return blocks.length === 0 ? undefined : [{ type: 'text', text }, ...blocks];
}

function failureWith(code: ErrorCode, message: string, details?: JsonObject): ExecutionFailure {
  const { class: errorType, retryable } = CATALOGUE[code];
  return { code, errorType, message, retryable, details };
}

function toOutput(run: RunReply, queueMs: Milliseconds): JsonObject {
  const { cpuMs, wallMs, peakMemoryMb } = run.usage;
  return jsonObject({
    value: run.value,
    value_repr: run.valueRepr,
    stdout: run.stdout,
    stderr: run.stderr,
    truncated: { ...run.truncated },
    files: run.files?.length ? run.files.map(fileFacts) : undefined,
    usage: {
      cpu_ms: Math.round(cpuMs),
      wall_ms: Math.round(wallMs),
      queue_ms: Math.round(queueMs),
      peak_memory_mb: Math.round(peakMemoryMb),
    },
  });
}

function toFailure(run: RunReply, { tool, timeoutMs }: RunContext): ExecutionFailure | undefined {
  if (run.status === 'ok' || (run.status === 'exit' && run.exitCode === 0)) return undefined;
  const error = run.error ?? {
    type: 'SystemExit',
    message: `the program exited with code ${run.exitCode ?? 1}`,
    line: null,
    traceback: '',
  };
  const { type, line, traceback } = error;
  if (run.status === 'timeout') {
    const limitMs = Math.round(run.limitMs ?? timeoutMs);
    const details = { type, line, traceback, timeout_ms: limitMs };
    return failureWith('ATTEMPT_TIMED_OUT', `Tool '${tool}' timed out after ${limitMs}ms`, details);
  }
  const isPython = run.status === 'error' || run.status === 'memory';
  const message = isPython ? (error.message ? `${type}: ${error.message}` : type) : error.message;
  return failureWith(CODES[run.status], message, { type, line, traceback });
}

/** The text for the model: the value, then stdout and stderr, then the error. */
function toText(run: RunReply, failure: ExecutionFailure | undefined): string {
  const parts: string[] = [];
  const value = run.valueRepr ?? (run.value === null ? undefined : shown(run.value));
  if (value !== undefined) parts.push(value);
  if (run.stdout) parts.push(value === undefined ? run.stdout.trimEnd() : `stdout:\n${run.stdout.trimEnd()}`);
  if (run.stderr) parts.push(`stderr:\n${run.stderr.trimEnd()}`);
  if (run.files?.length) parts.push(`files: ${run.files.map(({ name }) => name).join(', ')}`);
  const { error } = run;
  if (failure?.code === 'ATTEMPT_TIMED_OUT') parts.push(failure.message);
  else if (error) parts.push(error.traceback.trimEnd() || `${error.type}: ${error.message}`);
  else if (run.status === 'exit' && run.exitCode !== 0) parts.push(`exit code ${run.exitCode}`);
  const text = parts.join('\n') || '(no output)';
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT - 30)}\n[${text.length} characters in total]`;
}

function shown(value: Json): string {
  return typeof value === 'object' ? (recordTable(value) ?? JSON.stringify(value)) : String(value);
}

function tooLarge(response: ExecResponse, run: RunReply, output: JsonObject, message: string): ExecResponse {
  return {
    ...response,
    ok: false,
    content: undefined,
    output: {
      ...output,
      value: null,
      stdout: run.stdout.slice(0, KEPT_CHARS),
      stderr: run.stderr.slice(0, KEPT_CHARS),
      truncated: {
        stdout: run.truncated.stdout || run.stdout.length > KEPT_CHARS,
        stderr: run.truncated.stderr || run.stderr.length > KEPT_CHARS,
      },
    },
    text: `${message}\n${response.text}`.slice(0, MAX_TEXT),
    failure: response.failure ?? failureWith('RESULT_TOO_LARGE', message),
  };
}
