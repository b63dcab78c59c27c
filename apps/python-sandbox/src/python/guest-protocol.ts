import type { Json } from '@toolfleet/contracts';
import type { Strictness } from '@toolfleet/contracts/execution';
import type { FileContent } from '../wasi/guest-files.js';

/**
 * What goes into the guest and what comes out. The result frame is written by code the user can influence (frame
 * walking, opening `/dev/result`), so it is untrusted: size cap (the host's), parse in a try, each field checked, no
 * key copied blindly. A forged frame only forges the forger's own answer.
 */

/** One run, as the service asks the sandbox for it. Only these fields travel; limits stay outside the guest. */
export interface RunRequest {
  code: string;
  args: Json;
  stdin: string;
  files: Record<string, FileContent>;
  strictness: Strictness;
  extraModules: string[];
  /** Variables of the session as JSON text, or null for none. */
  session: string | null;
  /** True: send the variables back. */
  keepSession: boolean;
  /** Counted from the start of the run. */
  timeoutMs: number;
  memoryLimitMb: number;
  /** True: report lines of stdout while the run goes on. */
  reportsProgress: boolean;
}

export type RunStatus =
  | 'ok'
  | 'error'
  | 'exit'
  | 'policy'
  | 'memory'
  | 'output_limit'
  | 'timeout'
  | 'crashed'
  | 'cancelled';

export interface RunError {
  type: string;
  message: string;
  /** Line of the user's program, from 1. */
  line: number | null;
  /** Lines of the user's program only, at most 20 frames and 8,000 characters. */
  traceback: string;
}

/** Outcome of one run: always a status, never an exception. */
export interface RunReply {
  status: RunStatus;
  value: Json;
  /** Instead of a value that is not JSON. */
  valueRepr?: string;
  stdout: string;
  stderr: string;
  truncated: { stdout: boolean; stderr: boolean };
  usage: { cpuMs: number; wallMs: number; peakMemoryMb: number };
  /** Milliseconds it took to restore the interpreter, in advance or on demand. */
  restoreMs?: number;
  error?: RunError;
  exitCode?: number;
  /** JSON text of the session's variables after the run. */
  session?: string;
  /** Why the variables were not kept. */
  sessionNote?: string;
}

/** How the guest's code came to its end, as seen by the host. */
export type GuestEnd =
  | { kind: 'returned' }
  | { kind: 'exited'; code: number }
  | { kind: 'stopped'; why: 'output_limit' }
  | { kind: 'trapped'; message: string };

/** The part of a reply that comes from the guest. */
export type Verdict = Pick<
  RunReply,
  'status' | 'value' | 'valueRepr' | 'error' | 'exitCode' | 'session' | 'sessionNote'
>;

const MAX_DEPTH = 200;
const MAX_SESSION_CHARS = 1024 * 1024;
const GUEST_KINDS = ['ok', 'error', 'exit', 'policy', 'memory', 'crashed'] as const;

/** The request as bytes for fd 0. */
export function encodeRequest(request: RunRequest): Uint8Array {
  const files = Object.fromEntries(
    Object.entries(request.files).map(([name, content]) => [name, typeof content === 'string']),
  );
  const { code, args, stdin, strictness, session } = request;
  return marshalled({
    code,
    args: args === null ? null : JSON.stringify(args),
    stdin,
    strictness,
    session,
    files,
    extra_modules: request.extraModules,
    keep_session: request.keepSession,
  });
}

/** What the end of the guest and its frame mean. The first that applies wins. */
export function verdictOf(end: GuestEnd, frame: Uint8Array | null): Verdict {
  if (end.kind === 'stopped') return failed('output_limit', 'OutputLimit', 'the run wrote more than its output limit');
  if (end.kind === 'trapped') return crash(end.message);
  if (end.kind === 'exited') return { status: 'exit', value: null, exitCode: end.code };
  return readFrame(frame) ?? failed('crashed', 'NoResult', 'the run ended without a readable result');
}

function crash(message: string): Verdict {
  return /memory access|call stack|RangeError/.test(message)
    ? failed('crashed', 'StackOverflow', 'the interpreter ran out of stack')
    : failed('crashed', 'InterpreterCrash', message.slice(0, 200));
}

/** A verdict without a value. */
export function failed(status: RunStatus, type: string, message: string): Verdict {
  return { status, value: null, error: { type, message, line: null, traceback: '' } };
}

function readFrame(bytes: Uint8Array | null): Verdict | null {
  if (!bytes) return null;
  let frame: unknown;
  try {
    frame = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return null;
  }
  if (typeof frame !== 'object' || frame === null || Array.isArray(frame)) return null;
  const fields = frame as Record<string, unknown>;
  const status = GUEST_KINDS.find((kind) => kind === fields['kind']);
  if (!status) return null;
  const verdict: Verdict = { status, value: null };
  if (fields['value'] !== undefined) {
    if (isShallow(fields['value'])) verdict.value = fields['value'] as Json;
    else verdict.valueRepr = `<nested deeper than ${MAX_DEPTH} levels>`;
  }
  const text = (key: string, most: number) => {
    const value = fields[key];
    return typeof value === 'string' ? value.slice(0, most) : undefined;
  };
  const repr = text('value_repr', 2_000);
  if (repr !== undefined) verdict.valueRepr = repr;
  if (status === 'exit') verdict.exitCode = Number.isSafeInteger(fields['exit_code']) ? Number(fields['exit_code']) : 1;
  const session = fields['session'];
  if (typeof session === 'string' && session.length <= MAX_SESSION_CHARS) verdict.session = session;
  const note = text('session_note', 200);
  if (note !== undefined) verdict.sessionNote = note;
  if (fields['error'] !== undefined) verdict.error = readError(fields['error']);
  return verdict;
}

function readError(value: unknown): RunError {
  const fields = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
  const text = (key: string, most: number) => (typeof fields[key] === 'string' ? fields[key].slice(0, most) : '');
  const line = fields['line'];
  return {
    type: text('type', 200) || 'Error',
    message: text('message', 2_000),
    line: typeof line === 'number' && Number.isSafeInteger(line) ? line : null,
    traceback: text('traceback', 8_000),
  };
}

/** Walks without recursion: a deep value would overflow the stack of every serialiser after this one. */
function isShallow(value: unknown): boolean {
  const todo: { value: unknown; depth: number }[] = [{ value, depth: 0 }];
  for (let next = todo.pop(); next; next = todo.pop()) {
    if (typeof next.value !== 'object' || next.value === null) continue;
    if (next.depth >= MAX_DEPTH) return false;
    for (const child of Object.values(next.value)) todo.push({ value: child, depth: next.depth + 1 });
  }
  return true;
}

/**
 * Values as CPython's `marshal.loads` reads them. One C function there instead of a parser written in Python: reading a
 * request takes a fifth of the time it takes as JSON. For what the host says to the guest only; what the guest says is
 * untrusted and stays JSON, for which the engine has a parser that withstands anything.
 */
export type Marshalled = null | boolean | string | readonly Marshalled[] | { readonly [key: string]: Marshalled };

/** The value as bytes of the format, the same since version 2. Nesting is as deep as the fields of a request, no more. */
export function marshalled(value: Marshalled): Uint8Array {
  const parts: Uint8Array[] = [];
  append(value, parts);
  return Buffer.concat(parts);
}

function append(value: Marshalled, parts: Uint8Array[]): void {
  if (value === null) parts.push(Buffer.from('N'));
  else if (typeof value === 'boolean') parts.push(Buffer.from(value ? 'T' : 'F'));
  else if (typeof value === 'string') {
    const bytes = utf8Of(value);
    parts.push(head('u', bytes.length), bytes);
  } else if (Array.isArray(value)) {
    parts.push(head('[', value.length));
    for (const item of value) append(item, parts);
  } else {
    parts.push(Buffer.from('{'));
    for (const [key, item] of Object.entries(value)) {
      append(key, parts);
      append(item, parts);
    }
    parts.push(Buffer.from('0'));
  }
}

/** The letter of a type and a 32-bit length. */
function head(type: string, length: number): Uint8Array {
  const bytes = Buffer.from(`${type}    `);
  bytes.writeUInt32LE(length, 1);
  return bytes;
}

/** UTF-8 in which half of a surrogate pair stays what it is, as in Python's `surrogatepass`. */
function utf8Of(text: string): Uint8Array {
  if (text.isWellFormed()) return Buffer.from(text);
  const parts = text.split(/([\ud800-\udfff])/u).map((part, at) => {
    if (at % 2 === 0) return Buffer.from(part);
    const unit = part.charCodeAt(0);
    return Buffer.from([0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)]);
  });
  return Buffer.concat(parts);
}
