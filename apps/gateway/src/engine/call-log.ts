import { toUsd, type CallRequest } from '@toolfleet/contracts';
import { Audit, type AuditRecord } from '@toolfleet/engine';
import type { LifecycleComponent } from '@toolfleet/service';
import { CHAINED, type Logger } from '@toolfleet/telemetry';
import { redactedError } from './redacted-error.js';
import { redactArguments } from './redact-arguments.js';

/**
 * One log line per call, whatever became of it, and one per retry. The lines of calls are the audit log: they are chained by
 * hash, from the start of this process to its end (`fleetctl audit verify`).
 */
export class CallLog extends Audit {
  constructor(private readonly logger: Logger) {
    super();
  }

  /** Begins the chain of this process, and ends it after all calls. */
  asPart(): LifecycleComponent {
    return {
      name: 'audit log',
      start: async () => this.logger.info({ audit: CHAINED }, 'audit log begins'),
      stop: async () => this.logger.info({ audit: CHAINED }, 'audit log ends'),
    };
  }

  override finished(record: AuditRecord): void {
    const { request, tool } = record.call;
    this.logger.info(
      {
        tool_name: tool?.name ?? request.toolName,
        duration_ms: Math.round(record.durationMs * 1_000) / 1_000,
        cost_usd: toUsd(record.microUsd),
        success: record.ok,
        error: redactedError(record),
        // A field without a value is not written.
        code: record.code,
        call_id: request.callId,
        tenant_id: request.principal.tenantId,
        user_id: request.principal.userId,
        key_id: request.principal.keyId,
        door: request.door,
        attempts: record.attempts,
        provenance: record.provenance,
        audit: CHAINED,
      },
      'call finished',
    );
  }

  override retrying(event: {
    tool: string;
    callId: string;
    attempt: number;
    maxAttempts: number;
    delayMs: number;
    error: string;
    rawArguments: CallRequest['rawArguments'];
  }): void {
    const { tool, callId, attempt, maxAttempts, delayMs, rawArguments } = event;
    const error = redactArguments(event.error, rawArguments);
    this.logger.warn(
      { tool_name: tool, call_id: callId, attempt, max_attempts: maxAttempts, delay_ms: delayMs, error },
      'call is tried again',
    );
  }
}
