import { toUsd } from '@toolfleet/contracts';
import type { CallStages, RecentCall, RetriedAttempt } from '@toolfleet/contracts/fleet';
import {
  actingUserId,
  Audit,
  type AuditRecord,
  recordedTool,
  redactCall,
  redactedError,
  toCallStatus,
} from '@toolfleet/engine';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import { traceparent } from '@toolfleet/telemetry';
import type { RecentCalls } from './recent-calls.js';

/** Finished calls are buffered for this long and written together. */
const BATCH_WINDOW_MS = 250;
/** Calls recorded per batch; the rest are dropped. Twenty gateways then write at most 6,400 entries a second. */
const MAX_BATCH = 40;
/** Of those, calls of one tenant. */
const MAX_BATCH_OF_TENANT = 20;
const MAX_ERROR_CHARS = 300;
/** Running calls whose failed attempts are remembered; of further ones only the number of attempts is recorded. */
const MAX_RETRYING = 1_000;

interface BufferedCall {
  record: AuditRecord;
  retried: RetriedAttempt[] | undefined;
  endedAt: number;
  trace: string | undefined;
}

/**
 * Records finished calls, without dry runs, for the operator views. A call only appends to a bounded buffer; a timer writes the buffer to the
 * store. While the store is unavailable, records are lost and calls are unaffected.
 */
export class CallRecorder extends Audit {
  #buffer: BufferedCall[] = [];
  readonly #perTenant = new Map<string, number>();
  /** Failed attempts of running calls by call id. */
  readonly #retried = new Map<string, RetriedAttempt[]>();
  #timer: CancelTimer | undefined;

  constructor(
    private readonly calls: RecentCalls,
    private readonly clock: Clock,
  ) {
    super();
  }

  override retrying({ call, callId, attempt, delayMs, error }: Parameters<Audit['retrying']>[0]): void {
    let attempts = this.#retried.get(callId);
    if (!attempts) {
      if (this.#retried.size >= MAX_RETRYING) return;
      this.#retried.set(callId, (attempts = []));
    }
    const shown = redactCall(error, call).slice(0, MAX_ERROR_CHARS);
    attempts.push({ attempt, error: shown, delay_ms: toTenths(delayMs) });
  }

  override finished(record: AuditRecord): void {
    const { callId } = record.call.request;
    const retried = this.#retried.get(callId);
    this.#retried.delete(callId);
    if (record.call.request.mode.kind === 'dry' || this.#buffer.length >= MAX_BATCH) return;
    const { tenantId } = record.call.request.principal;
    const ofTenant = this.#perTenant.get(tenantId) ?? 0;
    if (ofTenant >= MAX_BATCH_OF_TENANT) return;
    this.#perTenant.set(tenantId, ofTenant + 1);
    this.#buffer.push({ record, retried, endedAt: this.clock.now(), trace: traceparent() });
    this.#timer ??= this.clock.after(BATCH_WINDOW_MS, () => void this.flush());
  }

  /** Writes the buffered calls; never rejects. */
  async flush(): Promise<void> {
    this.#timer?.();
    this.#timer = undefined;
    const batch = this.#buffer;
    this.#buffer = [];
    this.#perTenant.clear();
    if (batch.length > 0) await this.calls.add(batch.map(toRecentCall)).catch(() => undefined);
  }
}

function toRecentCall({ record, retried, endedAt, trace }: BufferedCall): RecentCall {
  const { request, tool } = record.call;
  return {
    call_id: request.callId,
    parent_call_id: request.principal.parentCallId,
    ended_at: endedAt,
    tenant_id: request.principal.tenantId,
    user_id: actingUserId(request),
    key_id: request.principal.keyId,
    tool: recordedTool(record.call),
    kind: tool?.binding.kind,
    door: request.door,
    origin: request.origin,
    status: toCallStatus(record),
    code: record.code,
    error: redactedError(record)?.slice(0, MAX_ERROR_CHARS),
    provenance: record.provenance,
    attempts: record.attempts,
    retried,
    duration_ms: toTenths(record.durationMs),
    stages: toStages(record),
    cost_usd: toUsd(record.microUsd),
    trace_id: trace?.split('-')[1],
  };
}

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
