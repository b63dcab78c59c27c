/**
 * Converts the arguments of a job to a request for the sandbox. The gateway has already validated them against the tool's
 * schema; the limits are checked again here, because a queue is also an entry point.
 */
import { isJsonObject, ToolError, type Json, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { ExecJob } from '@toolfleet/contracts/execution';
import { SIZES } from '@toolfleet/contracts/subjects';
import {
  BARE_RUN,
  buildTree,
  isStrictness,
  type FileContent,
  type ProgramRun,
  type RunRequest,
  type Strictness,
} from '@toolfleet/wasi-python';

/** Hard limits of this service; a job can only lower them. */
export interface RunLimits {
  readonly maxTimeoutMs: Milliseconds;
  readonly memoryLimitMb: number;
  /** Names of the packages that programs of a tenant can import; absent for none. */
  readonly packagesOf?: (tenantId: string) => readonly string[];
}

const MAX_CODE_BYTES = 256 * 1024;
const MAX_ARGS_BYTES = 1024 * 1024;
const MAX_STDIN_BYTES = 4 * 1024 * 1024;
const MAX_FILES = 1_000;
const MAX_SESSION_ID = 256;
/** Time that a program may compute. */
const PROGRAM_COMPUTE_MS = 10_000;
const PROGRAM_WALL_MS = { default: 60_000, most: 300_000 };
/** A started interpreter needs this much. */
const MIN_MEMORY_MB = 32;

/** A request and the session it belongs to. */
interface PlannedRun {
  request: RunRequest;
  sessionId: string | null;
}

/** Plans the run of a job. @throws ToolError ARGUMENTS_INVALID with the argument and its limit */
export function planRun(
  job: Pick<ExecJob, 'arguments' | 'context' | 'python' | 'timeout_ms'>,
  limits: RunLimits,
): PlannedRun {
  const given = job.arguments;
  const strictness = readStrictness(given['strictness'], job.python?.default_strictness);
  const sessionId = readSessionId(given['session_id'] ?? job.context.session_id);
  return {
    sessionId,
    request: {
      code: readCode(given['code']),
      args: readArgs(given['args']),
      stdin: readText(given['stdin'], 'stdin', MAX_STDIN_BYTES),
      files: readFiles(given['files']),
      strictness,
      extraModules: [...(job.python?.extra_allowed_modules.strict ?? [])],
      packages: limits.packagesOf?.(job.context.tenant_id),
      session: null,
      keepSession: sessionId !== null,
      timeoutMs: readTimeout(given['timeout_seconds'], job.timeout_ms, limits),
      memoryLimitMb: memoryLimit(job, limits),
      reportsProgress: false,
    },
  };
}

/** Plans the run of a program that calls tools. @throws ToolError ARGUMENTS_INVALID */
export function planProgram(
  job: Pick<ExecJob, 'arguments' | 'context' | 'program' | 'python' | 'timeout_ms'>,
  limits: RunLimits,
): { request: RunRequest; program: ProgramRun } {
  const { code, inputs, timeout_seconds: seconds } = job.arguments;
  if (!job.program) throw invalid('program', 'the job has no seed');
  const askedMs = typeof seconds === 'number' ? seconds * 1_000 : PROGRAM_WALL_MS.default;
  const wallMs = Math.max(1, Math.min(askedMs, job.timeout_ms, PROGRAM_WALL_MS.most));
  const { seed, started_at: startedAt } = job.program;
  return {
    program: { seed, startedAt, inputs: readArgs(inputs), wallMs },
    request: {
      ...BARE_RUN,
      code: readCode(code),
      packages: limits.packagesOf?.(job.context.tenant_id),
      timeoutMs: Math.min(PROGRAM_COMPUTE_MS, limits.maxTimeoutMs, wallMs),
      memoryLimitMb: memoryLimit(job, limits),
    },
  };
}

function invalid(argument: string, message: string, details: JsonObject = {}): ToolError {
  return new ToolError('ARGUMENTS_INVALID', { message: `${argument}: ${message}`, details: { argument, ...details } });
}

function tooLarge(argument: string, bytes: number, most: number): ToolError {
  return invalid(argument, `${bytes} bytes, at most ${most} are allowed`, { bytes, limit_bytes: most });
}

/** The limit of the tool's definition, at most this service's. */
function memoryLimit({ python }: Pick<ExecJob, 'python'>, { memoryLimitMb: most }: RunLimits): number {
  return Math.max(MIN_MEMORY_MB, Math.min(python?.memory_limit_mb ?? most, most));
}

function readCode(value: Json | undefined): string {
  if (typeof value !== 'string') throw invalid('code', 'must be a string');
  const bytes = Buffer.byteLength(value);
  if (bytes > MAX_CODE_BYTES) throw tooLarge('code', bytes, MAX_CODE_BYTES);
  // Interpreters differ on whether they truncate or refuse source at NUL, and no legitimate program contains one.
  if (value.includes('\0')) throw invalid('code', 'must not contain NUL characters');
  return value;
}

/** `lenient` is another name of `standard`. */
function readStrictness(value: Json | undefined, fallback: string | undefined): Strictness {
  const level = value ?? fallback ?? 'standard';
  if (level === 'lenient') return 'standard';
  if (!isStrictness(level)) throw invalid('strictness', 'must be lenient, standard or strict');
  return level;
}

function readText(value: Json | undefined, argument: string, most: number): string {
  if (value === undefined || value === null) return '';
  if (typeof value !== 'string') throw invalid(argument, 'must be a string');
  const bytes = Buffer.byteLength(value);
  if (bytes > most) throw tooLarge(argument, bytes, most);
  return value;
}

function readArgs(value: Json | undefined): Json {
  if (value === undefined) return null;
  const bytes = Buffer.byteLength(JSON.stringify(value));
  if (bytes > MAX_ARGS_BYTES) throw tooLarge('args', bytes, MAX_ARGS_BYTES);
  return value;
}

function readFiles(value: Json | undefined): Record<string, FileContent> {
  if (value === undefined || value === null) return {};
  if (!isJsonObject(value)) throw invalid('files', 'must be an object of file contents by name');
  const entries = Object.entries(value);
  if (entries.length > MAX_FILES) throw invalid('files', `${entries.length} files, at most ${MAX_FILES} are allowed`);
  const files: Record<string, FileContent> = Object.create(null);
  let bytes = 0;
  for (const [name, content] of entries) {
    files[name] = readFile(name, content);
    bytes += byteLength(files[name]);
    if (bytes > SIZES.sandboxFiles) throw tooLarge('files', bytes, SIZES.sandboxFiles);
  }
  try {
    buildTree(files);
  } catch (error) {
    throw invalid('files', error instanceof Error ? error.message : String(error));
  }
  return { ...files };
}

function readFile(name: string, content: Json): FileContent {
  if (typeof content === 'string') return content;
  const base64 = isJsonObject(content) ? content['base64'] : undefined;
  if (typeof base64 !== 'string' || !/^[A-Za-z0-9+/]*={0,2}$/.test(base64)) {
    throw invalid('files', `${JSON.stringify(name.slice(0, 255))} must be a string or {"base64": "..."}`);
  }
  return { base64 };
}

function byteLength(content: FileContent): number {
  return typeof content === 'string' ? Buffer.byteLength(content) : Math.floor((content.base64.length * 3) / 4);
}

function readTimeout(value: Json | undefined, jobTimeoutMs: Milliseconds, { maxTimeoutMs }: RunLimits): Milliseconds {
  if (value !== undefined && value !== null && (typeof value !== 'number' || !(value >= 1) || value > 60)) {
    throw invalid('timeout_seconds', 'must be a number from 1 to 60');
  }
  const requestedMs = typeof value === 'number' ? value * 1_000 : Infinity;
  return Math.max(1, Math.min(requestedMs, jobTimeoutMs, maxTimeoutMs));
}

function readSessionId(value: Json | undefined): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value !== 'string' || value === '' || value.length > MAX_SESSION_ID) {
    throw invalid('session_id', `must be a string of 1 to ${MAX_SESSION_ID} characters`);
  }
  return value;
}
