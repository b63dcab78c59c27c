import { randomUUID } from 'node:crypto';
import type {
  CallInput,
  CallLimits,
  CallRequest,
  CallReuse,
  CallTarget,
  ExecutionFailure,
  Principal,
} from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { CATALOGUE, isToolError, type ErrorCode } from '@toolfleet/contracts';
import {
  DEFAULT_SETTINGS,
  Executor,
  makeExecuteCall,
  type Call,
  type EngineSettings,
  type Tracer,
} from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import { FakeClock } from './fake-clock.js';
import { MapJournal, MemoryAudit, MemoryBudget, memoryPorts } from './memory-ports.js';

/** A tool definition for tests, idempotent by default. */
export function aTool(parts: Partial<RegisteredTool> = {}): RegisteredTool {
  return {
    name: 'adder',
    version: '1.0.0',
    description: 'Adds two numbers',
    category: 'data',
    revision: randomUUID().slice(0, 16),
    available: true,
    input_schema: {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { type: 'integer', default: 1 } },
      required: ['a'],
    },
    binding: { kind: 'builtin', toolset: 'compute', handler: 'adder' },
    source: { kind: 'builtin', name: 'builtin' },
    idempotent: true,
    rate_limit: 0,
    ...parts,
  };
}

/** Ann of tenant `acme`, who called with an API key for all tools. */
export function aPrincipal(parts: Partial<Principal> = {}): Principal {
  return { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'api_key', ...parts };
}

/** Fields of a request, without its groups. */
export type RequestFields = Partial<
  Omit<CallRequest, 'target' | 'input' | 'limits' | 'reuse'> & CallTarget & CallInput & CallLimits & CallReuse
>;

/** A request of a public caller. */
export function aRequest(clock: Clock, fields: RequestFields & { timeLeftMs?: number } = {}): CallRequest {
  const {
    timeLeftMs = 120_000,
    toolName = 'adder',
    view,
    definition,
    rawArguments = { a: 1 },
    select,
    ...more
  } = fields;
  const { deadlineAt = clock.now() + timeLeftMs, timeoutMs, noRetry, inlineBytes, ...others } = more;
  const { idempotencyKey, keyForEffects, idempotencyWaitMs, cache, repeats, ...rest } = others;
  return {
    callId: randomUUID(),
    target: { toolName, view, definition },
    input: { rawArguments, select },
    limits: { deadlineAt, timeoutMs, noRetry, inlineBytes },
    reuse: { idempotencyKey, keyForEffects, idempotencyWaitMs, cache, repeats },
    principal: aPrincipal(),
    origin: 'public',
    entryPoint: 'http',
    context: {},
    signal: new AbortController().signal,
    mode: { kind: 'run' },
    ...rest,
  };
}

/**
 * Sends a call to an executor as the engine does: again while the executor refuses it since its event loop was blocked, as it is on a
 * busy machine. Such a call has not begun.
 */
export async function untilAccepted<T>(send: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await send();
    } catch (error) {
      if (!isToolError(error) || error.details?.['reason'] !== 'executor_late') throw error;
    }
  }
}

/** A successful response of an executor. */
export function okReply(output: ExecResponse['output'] = null, parts: Partial<ExecResponse> = {}): ExecResponse {
  return { ok: true, output, text: 'done', metadata: {}, ...parts };
}

/** A failed response of an executor. */
export function failedReply(code: ErrorCode, parts: Partial<ExecutionFailure> = {}): ExecResponse {
  const { class: errorType, retryable } = CATALOGUE[code];
  return {
    ok: false,
    output: null,
    text: '',
    metadata: {},
    failure: { code, errorType, message: `failed with ${code}`, retryable, ...parts },
  };
}

/** An executor that answers each attempt with the next step of a script, and repeats the last one. */
export class ScriptedExecutor extends Executor {
  readonly calls: Call[] = [];
  readonly #steps: ((call: Call) => Promise<ExecResponse> | ExecResponse)[];

  constructor(...steps: ((call: Call) => Promise<ExecResponse> | ExecResponse)[]) {
    super();
    this.#steps = steps;
  }

  override async execute(call: Call): Promise<ExecResponse> {
    this.calls.push(call);
    const step = this.#steps[Math.min(this.calls.length, this.#steps.length) - 1];
    if (!step) throw new Error('no step');
    return step(call);
  }
}

/** A step that hangs until it is aborted, then fails like a closed socket. */
export function hangs(call: Call): Promise<ExecResponse> {
  return new Promise((_, reject) => {
    call.signal.addEventListener('abort', () => reject(new Error('socket closed')), { once: true });
  });
}

/** An engine around a scripted executor, with access to all its stores. */
export function anEngine(
  tool: Partial<RegisteredTool>,
  executor: ScriptedExecutor,
  parts: { limitMicroUsd?: number; asSuccess?: boolean; settings?: Partial<EngineSettings>; tracer?: Tracer } = {},
) {
  const clock = new FakeClock();
  const [audit, budget, journal] = [new MemoryAudit(), new MemoryBudget(parts.limitMicroUsd), new MapJournal()];
  const settings = { ...DEFAULT_SETTINGS, gracefulErrorAsSuccess: parts.asSuccess ?? false, ...parts.settings };
  const more = parts.tracer ? { tracer: parts.tracer } : {};
  const ports = memoryPorts([aTool(tool)], executor, { clock, audit, budget, journal, settings, ...more });
  const execute = makeExecuteCall(ports);
  const call = (request: Parameters<typeof aRequest>[1] = {}) => execute(aRequest(clock, request));
  return { clock, audit, budget, journal, ports, call, executor };
}

/** Awaits a promise while the fake clock advances by `ms`. */
export async function over<T>(clock: FakeClock, ms: number, promise: Promise<T>): Promise<T> {
  const settled = promise.catch(() => {});
  await clock.run(ms);
  await settled;
  return promise;
}
