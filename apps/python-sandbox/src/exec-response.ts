import {
  CATALOGUE,
  type ErrorCode,
  type ExecutionFailure,
  type Json,
  type JsonObject,
  type Milliseconds,
} from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import { SIZES } from '@toolfleet/contracts/subjects';
import type { RunReply, RunStatus } from './python/guest-protocol.js';

/** The outcome of a run as the fleet reports it: a catalogue code per status, and a text a model can act on. */

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

/** What a model is shown at most (`CallResult.text`). */
const MAX_TEXT = 6_000;
/** Kept of each stream when the whole output is too large for the wire. */
const KEPT_CHARS = 64 * 1024;
/** Left for the envelope around the output. */
const ENVELOPE_BYTES = 64 * 1024;

export interface ReplyFacts {
  queueMs: Milliseconds;
  strictness: string;
  interpreter: string;
  sessionId: string | null;
}

/** Builds the answer of an attempt. `output` has stdout and stderr also when the run failed. */
export function toExecResponse(run: RunReply, facts: ReplyFacts): ExecResponse {
  const output = outputOf(run, facts.queueMs);
  const metadata: JsonObject = {
    strictness: facts.strictness,
    interpreter: facts.interpreter,
    status: run.status,
    ...(run.exitCode === undefined ? {} : { exit_code: run.exitCode }),
    ...(facts.sessionId === null ? {} : { session_id: facts.sessionId, session_kept: run.session !== undefined }),
    ...(run.sessionNote === undefined ? {} : { session_note: run.sessionNote }),
    ...(run.status === 'timeout' ? { timeout: true } : {}),
  };
  const timing = { execute_ms: Math.round(run.usage.wallMs), queue_ms: Math.round(facts.queueMs) };
  const failure = failureOf(run);
  const reply: ExecResponse = {
    ok: failure === undefined,
    output,
    text: textOf(run),
    metadata,
    ...(failure ? { failure } : {}),
    ...timing,
  };
  const bytes = Buffer.byteLength(JSON.stringify(reply));
  return bytes <= SIZES.toolResult - ENVELOPE_BYTES ? reply : tooLarge(reply, run, output, bytes);
}

function failureWith(code: ErrorCode, message: string, details?: JsonObject): ExecutionFailure {
  const { class: errorType, retryable } = CATALOGUE[code];
  return { code, errorType, message, retryable, ...(details ? { details } : {}) };
}

function outputOf(run: RunReply, queueMs: Milliseconds): JsonObject {
  const { cpuMs, wallMs, peakMemoryMb } = run.usage;
  return {
    value: run.value,
    ...(run.valueRepr === undefined ? {} : { value_repr: run.valueRepr }),
    stdout: run.stdout,
    stderr: run.stderr,
    truncated: { ...run.truncated },
    usage: {
      cpu_ms: Math.round(cpuMs),
      wall_ms: Math.round(wallMs),
      queue_ms: Math.round(queueMs),
      peak_memory_mb: Math.round(peakMemoryMb),
    },
  };
}

function failureOf(run: RunReply): ExecutionFailure | undefined {
  if (run.status === 'ok' || (run.status === 'exit' && run.exitCode === 0)) return undefined;
  const error = run.error ?? {
    type: 'SystemExit',
    message: `the program exited with code ${run.exitCode ?? 1}`,
    line: null,
    traceback: '',
  };
  const { type, line, traceback } = error;
  const isPython = run.status === 'error' || run.status === 'memory';
  const message = isPython ? (error.message ? `${type}: ${error.message}` : type) : error.message;
  return failureWith(CODES[run.status], message, { type, line, traceback });
}

/** Value, then stdout, then what went wrong: what a model needs, in the order it needs it. */
function textOf(run: RunReply): string {
  const parts: string[] = [];
  const value = run.valueRepr ?? (run.value === null ? undefined : shown(run.value));
  if (value !== undefined) parts.push(value);
  if (run.stdout) parts.push(value === undefined ? run.stdout.trimEnd() : `stdout:\n${run.stdout.trimEnd()}`);
  if (run.stderr) parts.push(`stderr:\n${run.stderr.trimEnd()}`);
  const { error } = run;
  if (error) parts.push(error.traceback.trimEnd() || `${error.type}: ${error.message}`);
  else if (run.status === 'exit' && run.exitCode !== 0) parts.push(`exit code ${run.exitCode}`);
  const text = parts.join('\n') || '(no output)';
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT - 30)}\n[${text.length} characters in all]`;
}

function shown(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function tooLarge(reply: ExecResponse, run: RunReply, output: JsonObject, bytes: number): ExecResponse {
  const message = `the output has ${bytes} bytes, at most ${SIZES.toolResult} travel`;
  return {
    ...reply,
    ok: false,
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
    text: `${message}\n${reply.text}`.slice(0, MAX_TEXT),
    failure: reply.failure ?? failureWith('RESULT_TOO_LARGE', message),
  };
}
