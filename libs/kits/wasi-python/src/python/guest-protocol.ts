import type { EpochMs, Json } from '@toolfleet/base';
import { parseExact, toExactJson } from '@toolfleet/base/json-text';
import type { FileContent } from '../wasi/file-tree.js';
import type { Strictness } from './strictness.js';

/**
 * The messages between host and guest: the request goes in as CPython's `marshal`, the result comes back as a JSON frame.
 * A program can write the frame itself (by walking frames, or through `/dev/result`), so the frame is untrusted: the host
 * limits its size, parses it in a `try`, and checks each field. A forged frame affects only the forger's own run.
 */

/** A run as the service requests it. The guest gets only what {@link encodeRequest} sends; limits are enforced outside. */
export interface RunRequest {
  code: string;
  args: Json;
  stdin: string;
  files: Record<string, FileContent>;
  strictness: Strictness;
  extraModules: string[];
  /** Names of packages in the settings of the host that the program can import. */
  packages?: readonly string[];
  /** Variables of the session as JSON text; null for none. */
  session: string | null;
  /** Return the variables after the run. */
  keepSession: boolean;
  /** Milliseconds from the start of the run. */
  timeoutMs: number;
  memoryLimitMb: number;
  /** Report lines of stdout during the run. */
  reportsProgress: boolean;
  /** Present for programs that call tools. */
  program?: ProgramRun;
}

/** A run without input, session and reports. */
export const BARE_RUN = {
  args: null,
  stdin: '',
  files: {},
  strictness: 'standard',
  extraModules: [],
  session: null,
  keepSession: false,
  reportsProgress: false,
} satisfies Partial<RunRequest>;

/** Additional input of a program that calls tools. A second run of the same call gets the same. */
export interface ProgramRun {
  /** Seeds its random numbers. */
  seed: string;
  /** Its time starts here. */
  startedAt: EpochMs;
  /** The variable `inputs`. */
  inputs: Json;
  /** Milliseconds from the start to its end, waiting included; `timeoutMs` counts only while it does not wait for a call. */
  wallMs: number;
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

interface RunError {
  type: string;
  message: string;
  /** Line of the user's program, counted from 1. */
  line: number | null;
  /** Frames of the user's program only, at most 20, and 8,000 characters. */
  traceback: string;
}

/** A file that a run wrote to its folder. */
export interface RunFile {
  /** Path below the folder. */
  name: string;
  bytes: Uint8Array;
}

/** The reply to a run. Every run ends with a status, never with an exception. */
export interface RunReply {
  status: RunStatus;
  value: Json;
  /** `repr` of a value that is not JSON. */
  valueRepr?: string;
  /** `_repr_html_()` of a value that has it. */
  html?: string;
  /** Files that the run wrote; with `filesOmitted`, names of those beyond the limits. */
  files?: RunFile[];
  filesOmitted?: string[];
  stdout: string;
  stderr: string;
  truncated: { stdout: boolean; stderr: boolean };
  usage: { cpuMs: number; wallMs: number; peakMemoryMb: number };
  /** Milliseconds spent on restoring the interpreter, in advance or on demand. */
  restoreMs?: number;
  error?: RunError;
  /** The limit in ms that ended a run with status `timeout`. */
  limitMs?: number;
  exitCode?: number;
  /** JSON text of the session's variables after the run. */
  session?: string;
  /** Why the variables were not kept. */
  sessionNote?: string;
}

/** How the guest's code ended, as seen by the host. */
export type GuestEnd =
  | { kind: 'returned' }
  | { kind: 'exited'; code: number }
  | { kind: 'stopped'; why: 'output_limit' }
  | { kind: 'trapped'; message: string };

/** The part of a reply that the guest determines. */
export type Outcome = Pick<
  RunReply,
  'status' | 'value' | 'valueRepr' | 'html' | 'error' | 'limitMs' | 'exitCode' | 'session' | 'sessionNote'
>;

const MAX_DEPTH = 200;
const MAX_SESSION_CHARS = 1024 * 1024;
const MAX_HTML_CHARS = 1024 * 1024;
const GUEST_KINDS = ['ok', 'error', 'exit', 'policy', 'memory', 'crashed'] as const;

/** The request as bytes for fd 0. */
export function encodeRequest(request: RunRequest): Uint8Array {
  const files = Object.fromEntries(
    Object.entries(request.files).map(([name, content]) => [name, typeof content === 'string']),
  );
  const { code, args, stdin, strictness, session, program } = request;
  return marshal({
    code,
    args: args === null ? null : toExactJson(args),
    stdin,
    strictness,
    session,
    files,
    extra_modules: request.extraModules,
    packages: request.packages ?? [],
    keep_session: request.keepSession,
    program: program ? { seed: program.seed, inputs: toExactJson(program.inputs) } : null,
  });
}

/** The outcome of a run, from how the guest ended and the frame it left. */
export function classify(end: GuestEnd, frame: Uint8Array | null): Outcome {
  if (end.kind === 'stopped') return failed('output_limit', 'OutputLimit', 'the run wrote more than its output limit');
  if (end.kind === 'trapped') return crash(end.message);
  if (end.kind === 'exited') return { status: 'exit', value: null, exitCode: end.code };
  return readFrame(frame) ?? failed('crashed', 'NoResult', 'the run ended without a readable result');
}

function crash(message: string): Outcome {
  return /memory access|call stack|RangeError/.test(message)
    ? failed('crashed', 'StackOverflow', 'the interpreter ran out of stack')
    : failed('crashed', 'InterpreterCrash', message.slice(0, 200));
}

/** The outcome of a run that failed outside the user's code: no value, line or traceback. */
export function failed(status: RunStatus, type: string, message: string): Outcome {
  return { status, value: null, error: { type, message, line: null, traceback: '' } };
}

/** The reply of a run with unknown output and usage, except for the wall time. */
export function replyWithoutOutput(outcome: Outcome, wallMs = 0): RunReply {
  return {
    ...outcome,
    stdout: '',
    stderr: '',
    truncated: { stdout: false, stderr: false },
    usage: { cpuMs: wallMs, wallMs, peakMemoryMb: 0 },
  };
}

function readFrame(bytes: Uint8Array | null): Outcome | null {
  if (!bytes) return null;
  let frame: unknown;
  try {
    frame = parseExact(new TextDecoder('utf-8', { fatal: true }).decode(bytes)).value;
  } catch {
    return null;
  }
  if (typeof frame !== 'object' || frame === null || Array.isArray(frame)) return null;
  const fields = frame as Record<string, unknown>;
  const status = GUEST_KINDS.find((kind) => kind === fields['kind']);
  if (!status) return null;
  const outcome: Outcome = { status, value: null };
  if (fields['value'] !== undefined) {
    if (isShallow(fields['value'])) outcome.value = fields['value'] as Json;
    else outcome.valueRepr = `<nested deeper than ${MAX_DEPTH} levels>`;
  }
  const text = (key: string, most: number) => {
    const value = fields[key];
    return typeof value === 'string' ? value.slice(0, most) : undefined;
  };
  const repr = text('value_repr', 2_000);
  if (repr !== undefined) outcome.valueRepr = repr;
  const html = text('html', MAX_HTML_CHARS);
  if (html !== undefined) outcome.html = html;
  if (status === 'exit') outcome.exitCode = Number.isSafeInteger(fields['exit_code']) ? Number(fields['exit_code']) : 1;
  const session = fields['session'];
  if (typeof session === 'string' && session.length <= MAX_SESSION_CHARS) outcome.session = session;
  const note = text('session_note', 200);
  if (note !== undefined) outcome.sessionNote = note;
  if (fields['error'] !== undefined) outcome.error = readError(fields['error']);
  return outcome;
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

/** Walks without recursion, because a deep value would overflow the stack here and in every serializer after it. */
function isShallow(value: unknown): boolean {
  const todo: { value: unknown; depth: number }[] = [{ value, depth: 0 }];
  for (let next = todo.pop(); next; next = todo.pop()) {
    if (typeof next.value !== 'object' || next.value === null) continue;
    if (next.depth >= MAX_DEPTH) return false;
    for (const child of Object.values(next.value)) todo.push({ value: child, depth: next.depth + 1 });
  }
  return true;
}

/** A value that CPython's `marshal.loads` can read. */
export type MarshalValue = null | boolean | string | readonly MarshalValue[] | { readonly [key: string]: MarshalValue };

/**
 * Encodes a value for `marshal.loads`, in a format unchanged since its version 2. The guest reads a request with one C
 * function, in a fifth of the time that JSON takes. Only for host to guest: data from the guest is untrusted and stays
 * JSON, with a hardened parser.
 */
export function marshal(value: MarshalValue): Uint8Array {
  const parts: Uint8Array[] = [];
  append(value, parts);
  return Buffer.concat(parts);
}

function append(value: MarshalValue, parts: Uint8Array[]): void {
  if (value === null) parts.push(Buffer.from('N'));
  else if (typeof value === 'boolean') parts.push(Buffer.from(value ? 'T' : 'F'));
  else if (typeof value === 'string') {
    const bytes = toUtf8(value);
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

/** A type letter and a 32-bit length. */
function head(type: string, length: number): Uint8Array {
  const bytes = Buffer.from(`${type}    `);
  bytes.writeUInt32LE(length, 1);
  return bytes;
}

/** UTF-8 that encodes lone surrogates as they are, like Python's `surrogatepass`. */
function toUtf8(text: string): Uint8Array {
  if (text.isWellFormed()) return Buffer.from(text);
  const parts = text.split(/([\ud800-\udfff])/u).map((part, at) => {
    if (at % 2 === 0) return Buffer.from(part);
    const unit = part.charCodeAt(0);
    return Buffer.from([0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)]);
  });
  return Buffer.concat(parts);
}
