import { randomUUID } from 'node:crypto';
import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import type { CallStages, RetriedAttempt } from '@toolfleet/contracts/fleet';
import {
  MAX_APPENDED_CALLS,
  MAX_RECORDING_MS,
  type FinishedCall,
  type RecordsAppend,
} from '@toolfleet/contracts/records';
import {
  actingUserId,
  Audit,
  type AuditRecord,
  recordedTool,
  redactCall,
  redactedError,
  toCallStatus,
} from '@toolfleet/engine';
import { withTimeout, type CancelTimer, type Clock } from '@toolfleet/resilience';
import { traceparent } from '@toolfleet/telemetry';
import type { CallBodies } from './call-bodies.js';
import { toOutcomes } from './call-outcomes.js';
import type { CallRecords } from './call-records.js';

/** Finished calls are collected for this long and sent together. */
const BATCH_WINDOW_MS = 250;
/** Time between two deliveries of a batch that the service did not confirm. */
const RESEND_MS = 1_000;
/** Longest wait of a reader of the records for calls that are on their way. */
const READER_WAITS_MS = 2_000;
const MAX_ERROR_CHARS = 300;
/** Arguments and results in one message, within the default of a NATS server (1 MB). */
const MAX_BATCH_BODY_BYTES = 400_000;
/** Arguments and results that wait for the service; of further calls only the row is recorded. */
const MAX_SPOOLED_BODY_BYTES = 32 * 1024 * 1024;
/** Running calls with remembered failed attempts; of further ones only the number of attempts is recorded. */
const MAX_RETRYING = 1_000;

interface BufferedCall {
  record: AuditRecord;
  retried: RetriedAttempt[] | undefined;
  endedAt: number;
  trace: string | undefined;
}

interface RecorderDeps {
  records: Pick<CallRecords, 'append'>;
  clock: Clock;
  /** Calls that wait for the service at most; further ones are not recorded. */
  maxSpooled: number;
  /** Counts calls that were not recorded. */
  onDropped: (calls: number) => void;
  /** Decides of which calls arguments and results are kept; absent: of none. */
  bodies?: CallBodies | undefined;
  /** Counts calls without kept arguments and results although they should be. */
  onBodyDropped?: () => void;
}

/**
 * Sends finished calls, without dry runs, to the service `records`, with their kept arguments and results. A call only appends to a list; a timer turns the list into rows and
 * sends them. While the service is unavailable, rows wait in memory up to a bound and are sent again, each batch under the same id, so that it is
 * stored once. A batch that is refused for its content is sent in smaller ones, until the one call that causes it is dropped. Calls
 * never wait.
 */
export class CallRecorder extends Audit {
  #buffer: BufferedCall[] = [];
  /** Rows that no batch has yet, oldest first. */
  #spool: FinishedCall[] = [];
  /** The batch that is on its way. */
  #sending: RecordsAppend | undefined;
  #maxBatch = MAX_APPENDED_CALLS;
  /** Bytes of arguments and results in `#spool` and `#sending`. */
  #bodyBytes = 0;
  /** Failed attempts of running calls by call id. */
  readonly #retried = new Map<string, RetriedAttempt[]>();
  #timer: CancelTimer | undefined;
  #delivery: Promise<void> | undefined;

  constructor(private readonly deps: RecorderDeps) {
    super();
  }

  override retrying({ call, callId, attempt, delayMs, error }: Parameters<Audit['retrying']>[0]): void {
    let attempts = this.#retried.get(callId);
    if (!attempts) {
      if (this.#retried.size >= MAX_RETRYING) return;
      this.#retried.set(callId, (attempts = []));
    }
    const shown = redactCall(error, call).slice(0, MAX_ERROR_CHARS);
    // The event names the attempt that follows.
    attempts.push({ attempt: attempt - 1, error: shown, delay_ms: toTenths(delayMs) });
  }

  override finished(record: AuditRecord): void {
    const { callId } = record.call.request;
    const retried = this.#retried.get(callId);
    this.#retried.delete(callId);
    if (record.call.request.mode.kind === 'dry') return;
    if (this.#waiting >= this.deps.maxSpooled) return this.deps.onDropped(1);
    this.#buffer.push({ record, retried, endedAt: this.deps.clock.now(), trace: traceparent() });
    this.#schedule(BATCH_WINDOW_MS);
  }

  get #waiting(): number {
    return this.#buffer.length + this.#spool.length + (this.#sending?.calls.length ?? 0);
  }

  #schedule(delayMs: Milliseconds): void {
    this.#timer ??= this.deps.clock.after(delayMs, () => void this.flush());
  }

  /** Sends all calls until the service has them or a delivery fails, and then leaves the rest to a timer. Never rejects. */
  flush(): Promise<void> {
    this.#timer?.();
    this.#timer = undefined;
    // Also while a batch is on its way for seconds: results may be large, and what rows keep of them has a bound.
    for (const call of this.#buffer.splice(0)) this.#spool.push(this.#withBody(toRow(call), call.record));
    this.#delivery ??= this.#deliver().finally(() => (this.#delivery = undefined));
    return this.#delivery;
  }

  /** Sends what is collected before the records are read, so that readers find their own calls. Waits for 2 s at most; never rejects. */
  async sendNow(): Promise<void> {
    if (this.#waiting > 0) await withTimeout(this.deps.clock, READER_WAITS_MS, this.flush()).catch(() => {});
  }

  #withBody(row: FinishedCall, record: AuditRecord): FinishedCall {
    const kept = this.deps.bodies?.of(record);
    if (!kept) return row;
    if (this.#bodyBytes + kept.bytes > MAX_SPOOLED_BODY_BYTES) this.deps.onBodyDropped?.();
    else {
      this.#bodyBytes += kept.bytes;
      row.body = kept.body;
      row.body_bytes = kept.bytes;
    }
    return row;
  }

  /** The next rows, as many as one message takes. */
  #nextBatch(): FinishedCall[] {
    let bytes = 0;
    const size = this.#spool.findIndex((row) => (bytes += row.body_bytes ?? 0) > MAX_BATCH_BODY_BYTES);
    return this.#spool.splice(0, Math.min(this.#maxBatch, size < 0 ? this.#spool.length : Math.max(1, size)));
  }

  async #deliver(): Promise<void> {
    for (;;) {
      if (!this.#sending) {
        if (this.#spool.length === 0) return;
        this.#sending = { batch_id: randomUUID(), calls: this.#nextBatch() };
      }
      const { calls } = this.#sending;
      try {
        if (this.oldestMs > MAX_RECORDING_MS) this.deps.onDropped(calls.length);
        else await this.deps.records.append(this.#sending);
        this.#maxBatch = Math.min(MAX_APPENDED_CALLS, this.#maxBatch * 2);
        this.#forgetBodies(calls);
      } catch (error) {
        if (!isRefused(error)) return this.#schedule(RESEND_MS);
        this.#divide(calls);
      }
      this.#sending = undefined;
    }
  }

  /** Sends a refused batch in halves, a refused call without its body, and drops one that is refused even then. */
  #divide(calls: FinishedCall[]): void {
    if (calls.length > 1) {
      this.#maxBatch = Math.ceil(calls.length / 2);
      this.#spool.unshift(...calls);
      return;
    }
    this.#forgetBodies(calls);
    const { body, body_bytes: _bytes, ...row } = calls[0]!;
    if (!body) return this.deps.onDropped(1);
    this.deps.onBodyDropped?.();
    this.#spool.unshift(row);
  }

  #forgetBodies(calls: readonly FinishedCall[]): void {
    for (const { body_bytes: bytes = 0 } of calls) this.#bodyBytes -= bytes;
  }

  /** Milliseconds for which the oldest call has waited for the service; 0 when none waits. */
  get oldestMs(): Milliseconds {
    const oldest = this.#sending?.calls[0]?.ended_at ?? this.#spool[0]?.ended_at ?? this.#buffer[0]?.endedAt;
    return oldest === undefined ? 0 : Math.max(0, this.deps.clock.now() - oldest);
  }

  /** Sends the rest before the process ends, for at most this time; then it is lost. */
  async drain(timeoutMs: Milliseconds): Promise<void> {
    const { clock, onDropped } = this.deps;
    const until = clock.monotonic() + timeoutMs;
    for (;;) {
      await this.flush();
      if (this.#waiting === 0) return;
      if (clock.monotonic() >= until) return onDropped(this.#waiting);
      await clock.sleep(Math.min(RESEND_MS / 4, Math.max(1, until - clock.monotonic())));
    }
  }
}

/** Whether the service, or NATS, can never take the batch; nothing of it is stored. */
const isRefused = (error: unknown): boolean =>
  error instanceof ToolError && (error.code === 'REQUEST_INVALID' || error.code === 'PAYLOAD_TOO_LARGE');

function toRow({ record, retried, endedAt, trace }: BufferedCall): FinishedCall {
  const { request, tool } = record.call;
  const { principal, target } = request;
  const { view } = target;
  return {
    call_id: request.callId,
    parent_call_id: principal.parentCallId,
    request_id: request.requestId === request.callId ? undefined : request.requestId,
    idempotency_key: request.reuse.idempotencyKey,
    replay_of: record.result?.replayOf ?? request.reuse.repeats,
    ended_at: endedAt,
    tenant_id: principal.tenantId,
    user_id: actingUserId(request),
    key_id: principal.keyId,
    via: principal.via,
    roles: [...principal.roles],
    agent_id: request.agentId,
    task_id: request.taskId,
    tool: recordedTool(record.call),
    revision: tool?.revision,
    source: tool && `${tool.source.kind}/${tool.source.name}`,
    toolset: view && principal.toolset && toolsetName(principal.toolset),
    kind: tool?.binding.kind,
    entry_point: request.entryPoint,
    origin: request.origin,
    status: toCallStatus(record),
    outcomes: toOutcomes(record),
    code: record.code,
    error: redactedError(record)?.slice(0, MAX_ERROR_CHARS),
    provenance: record.provenance,
    attempts: record.attempts,
    retried,
    duration_ms: toTenths(record.durationMs),
    stages: toStages(record),
    micro_usd: record.microUsd,
    tokens: record.result?.replayOf === undefined ? (record.result?.usage.tokens ?? 0) : 0,
    trace_id: trace?.split('-')[1],
    client: request.client,
    policy: record.call.policy?.decision,
    policy_rules: record.call.policy?.rules && [...record.call.policy.rules],
    approval_grant: record.call.approvalGrant,
    interceptions: record.call.interceptions?.map(({ interceptor, did }) => `${interceptor} ${did}`),
  };
}

const toolsetName = ({ name, version }: { name: string; version?: number }): string =>
  version === undefined ? name : `${name}@${version}`;

/** Splits the duration of a call into its stages. Stages are measured separately, so their sum may exceed the duration. */
function toStages({ call, durationMs, timing }: AuditRecord): CallStages {
  const admit = call.admittedAt === undefined ? durationMs : Math.min(durationMs, call.admittedAt - call.startedAt);
  const { wait_ms: wait, queue_ms: queue, execute_ms: execute } = timing ?? { wait_ms: 0, queue_ms: 0, execute_ms: 0 };
  return {
    admit_ms: toTenths(admit),
    wait_ms: toTenths(wait),
    queue_ms: toTenths(queue),
    execute_ms: toTenths(execute),
    rest_ms: toTenths(Math.max(0, durationMs - admit - wait - queue - execute)),
  };
}

const toTenths = (ms: number): number => Math.round(ms * 10) / 10;
