import { toUsd } from '@toolfleet/contracts';
import { Audit, type AuditRecord } from '@toolfleet/engine';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import { traceparent } from '@toolfleet/telemetry';
import { callStatusOf } from './call-status.js';
import { redactedError } from './redacted-error.js';
import type { CallStages, RecentCall, RecentCalls } from '../recent-calls/recent-calls.js';

/** Calls are gathered this long before they are written. */
const BATCH_WINDOW_MS = 250;
/** Nobody can read more: further calls of a turn are not recorded. Twenty gateways at these write 6,400 times a second. */
const MOST_PER_TURN = 40;
const MOST_OF_TENANT = 20;
const MAX_ERROR = 300;

interface Noted {
  record: AuditRecord;
  endedAt: number;
  trace: string | undefined;
}

/**
 * Records finished calls for operators' views. On the way of a call it only notes the record; everything else happens
 * later, in batches, bounded however many calls there are. Redis being away loses records and nothing else.
 */
export class CallRecorder extends Audit {
  #noted: Noted[] = [];
  readonly #perTenant = new Map<string, number>();
  #timer: CancelTimer | undefined;

  constructor(
    private readonly calls: RecentCalls,
    private readonly clock: Clock,
  ) {
    super();
  }

  override finished(record: AuditRecord): void {
    if (this.#noted.length >= MOST_PER_TURN) return;
    const { tenantId } = record.call.request.principal;
    const ofTenant = this.#perTenant.get(tenantId) ?? 0;
    if (ofTenant >= MOST_OF_TENANT) return;
    this.#perTenant.set(tenantId, ofTenant + 1);
    this.#noted.push({ record, endedAt: this.clock.now(), trace: traceparent() });
    this.#timer ??= this.clock.after(BATCH_WINDOW_MS, () => void this.flush());
  }

  /** Writes what is noted. */
  async flush(): Promise<void> {
    this.#timer?.();
    this.#timer = undefined;
    const noted = this.#noted;
    this.#noted = [];
    this.#perTenant.clear();
    if (noted.length > 0) await this.calls.add(noted.map(recentCallOf)).catch(() => undefined);
  }
}

function recentCallOf({ record, endedAt, trace }: Noted): RecentCall {
  const { call } = record;
  const { request, tool } = call;
  const error = redactedError(record);
  return {
    call_id: request.callId,
    ended_at: endedAt,
    tenant_id: request.principal.tenantId,
    user_id: request.principal.userId,
    ...(request.principal.keyId === undefined ? {} : { key_id: request.principal.keyId }),
    tool: tool?.name ?? request.toolName.slice(0, 128),
    ...(tool ? { kind: tool.binding.kind } : {}),
    door: request.door,
    origin: request.origin,
    status: callStatusOf(record),
    ...(record.code === undefined ? {} : { code: record.code }),
    ...(error === null ? {} : { error: error.slice(0, MAX_ERROR) }),
    ...(record.provenance === undefined ? {} : { provenance: record.provenance }),
    ...(request.dryRun ? { dry_run: true } : {}),
    attempts: record.attempts,
    duration_ms: tenths(record.durationMs),
    stages: stagesOf(record),
    cost_usd: toUsd(record.microUsd),
    ...(trace === undefined ? {} : { trace_id: trace.split('-')[1]! }),
  };
}

/** What is neither admission nor waiting, queue or execution is the rest; stages are measured apart, so none is below 0. */
function stagesOf({ call, durationMs, timing }: AuditRecord): CallStages {
  const admit = call.admittedAt === undefined ? durationMs : Math.min(durationMs, call.admittedAt - call.startedAt);
  const wait = timing?.wait_ms ?? 0;
  const queue = timing?.queue_ms ?? 0;
  const execute = timing?.execute_ms ?? 0;
  return {
    admit_ms: tenths(admit),
    wait_ms: tenths(wait),
    queue_ms: tenths(queue),
    execute_ms: tenths(execute),
    rest_ms: tenths(Math.max(0, durationMs - admit - wait - queue - execute)),
  };
}

const tenths = (ms: number): number => Math.round(ms * 10) / 10;
