import { toUsd } from '@toolfleet/contracts';
import { executorClass } from '@toolfleet/contracts/subjects';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import {
  actingUserId,
  Audit,
  Meter,
  type AuditRecord,
  type Interception,
  recordedTool,
  redactCall,
  redactedError,
  toCallStatus,
} from '@toolfleet/engine';
import { BREAKER_GAUGE, RecentMap, type BreakerState, type Clock } from '@toolfleet/resilience';
import type { LifecycleComponent } from '@toolfleet/service';
import { CHAINED, LABEL, OTHER_LABEL, type Logger, type Metrics } from '@toolfleet/telemetry';
import { MAX_TOOLS, toToolType, type ToolLabels } from './tool-labels.js';

/**
 * Writes one log line per call, per dry run and per retry. The lines of calls are the audit log: each contains the hash of the previous
 * one, from the start of this process to its end (`fleetctl audit verify`).
 */
export class CallLog extends Audit {
  /** @param sampleRatio share of the successful calls of idempotent tools that are logged; all other calls always are */
  constructor(
    private readonly logger: Logger,
    private readonly sampleRatio = 1,
  ) {
    super();
  }

  /** Writes the first and the last line of the audit log; start it before and stop it after everything that makes calls. */
  asComponent(): LifecycleComponent {
    return {
      name: 'audit log',
      start: async () => this.logger.info({ audit: CHAINED }, 'audit log begins'),
      stop: async () => this.logger.info({ audit: CHAINED }, 'audit log ends'),
    };
  }

  override finished(record: AuditRecord): void {
    const { request, tool } = record.call;
    const isSampled = this.sampleRatio < 1 && record.ok && tool?.idempotent === true && request.mode.kind !== 'dry';
    if (isSampled && Math.random() >= this.sampleRatio) return;
    this.logger.info(
      {
        tool_name: recordedTool(record.call),
        duration_ms: Math.round(record.durationMs * 1_000) / 1_000,
        cost_usd: toUsd(record.microUsd),
        success: record.ok,
        error: redactedError(record) ?? null,
        code: record.code, // the logger leaves out undefined fields
        call_id: request.callId,
        tenant_id: request.principal.tenantId,
        user_id: actingUserId(request),
        key_id: request.principal.keyId,
        entry_point: request.entryPoint,
        toolset: request.target.view && { ...request.target.view.toolset, tool: request.target.view.shownName },
        attempts: record.attempts,
        provenance: record.provenance,
        interceptions: record.call.interceptions,
        audit: CHAINED,
      },
      request.mode.kind === 'dry' ? 'dry run finished' : 'call finished',
    );
  }

  override retrying(event: Parameters<Audit['retrying']>[0]): void {
    const { call, callId, attempt, maxAttempts, delayMs } = event;
    const error = redactCall(event.error, call);
    this.logger.warn(
      { tool_name: recordedTool(call), call_id: callId, attempt, max_attempts: maxAttempts, delay_ms: delayMs, error },
      'retrying call',
    );
  }
}

/** Sends every audit event to several audits, in the given order. */
export class Audits extends Audit {
  constructor(private readonly audits: readonly Audit[]) {
    super();
  }

  override finished(record: AuditRecord): void {
    for (const audit of this.audits) audit.finished(record);
  }

  override retrying(event: Parameters<Audit['retrying']>[0]): void {
    for (const audit of this.audits) audit.retrying(event);
  }
}

/** Counts calls in Prometheus metrics. Calls of unknown tools have the label `other`. */
export class CallMetrics extends Meter {
  readonly #openBreakers = new RecentMap<string, { label: string; state: BreakerState }>({ max: MAX_TOOLS });

  constructor(
    private readonly metrics: Metrics,
    private readonly labels: ToolLabels,
  ) {
    super();
    // rate() sees no increase when a series appears with value 1, so the series has to exist before the first failure.
    metrics.budgetUnavailable.inc(0);
    metrics.budgetSettlementRefused.inc(0);
  }

  override finished(record: AuditRecord): void {
    const { tool, request } = record.call;
    const tool_name = this.labels.of(tool);
    this.metrics.toolExecutions.inc({ tool_name, status: toCallStatus(record) });
    this.metrics.toolDuration.observe({ tool_name }, record.durationMs / 1_000);
    this.metrics.executeToolDuration.observe(toExecuteToolLabels(tool_name, record), record.durationMs / 1_000);
    if (record.errorType) this.metrics.toolErrors.inc({ tool_name, error_type: record.errorType });
    if (record.microUsd > 0) this.metrics.toolCostUsd.inc({ tool_name }, toUsd(record.microUsd));
    if (record.code === 'BUDGET_UNAVAILABLE') this.metrics.budgetUnavailable.inc();
    if (record.code === 'OUTCOME_UNKNOWN')
      this.metrics.outcomeUnknown.inc({ executor: tool?.binding.kind ?? OTHER_LABEL });
    if (record.executeMs !== undefined) {
      if (tool) {
        const labels = { executor: executorClass(tool.binding), status: toCallStatus(record) };
        this.metrics.executorDuration.observe(labels, record.executeMs / 1_000);
      }
      const overheadMs = Math.max(0, record.durationMs - record.executeMs);
      this.metrics.gatewayOverhead.observe({ entry_point: request.entryPoint }, overheadMs / 1_000);
    }
  }

  /** Shows the worst state of the breakers with the same label. */
  breakerChanged(tool: string, state: BreakerState): void {
    const label = this.labels.ofName(tool);
    if (state === 'closed') this.#openBreakers.delete(tool);
    else this.#openBreakers.set(tool, { label, state });
    const states = this.#openBreakers.values().flatMap((open) => (open.label === label ? [open.state] : []));
    const worst = Math.max(BREAKER_GAUGE.closed, ...states.map((open) => BREAKER_GAUGE[open]));
    this.metrics.breakerState.set({ tool_name: label }, worst);
  }

  override rateLimited(tool: RegisteredTool): void {
    this.metrics.rateLimitExceeded.inc({ tool_name: this.labels.of(tool) });
  }

  override tokensAvailable(tool: RegisteredTool, tokens: number): void {
    this.metrics.rateLimitTokens.set({ tool_name: this.labels.of(tool) }, tokens);
  }

  override outputMismatched(tool: RegisteredTool): void {
    this.metrics.outputMismatch.inc({ tool_name: this.labels.of(tool) });
  }

  override retried(tool: RegisteredTool): void {
    this.metrics.retries.inc({ executor: tool.binding.kind, reason: 'attempt_failed' });
  }

  override cacheLookup(tool: RegisteredTool, outcome: 'hit' | 'miss' | 'coalesced'): void {
    this.metrics.cacheLookups.inc({ tool_name: this.labels.of(tool), outcome });
  }

  override fellBack(tool: RegisteredTool, kind: 'stale_cache' | 'stub_data' | 'graceful_error'): void {
    this.metrics.fallbacks.inc({ tool_name: this.labels.of(tool), kind });
  }

  override intercepted({ interceptor, did }: Interception): void {
    this.metrics.interceptions.inc({ interceptor, did });
  }
}

/** Labels of `gen_ai.execute_tool.duration`. */
function toExecuteToolLabels(
  label: string,
  { call, errorType }: AuditRecord,
): Partial<Record<ExecuteToolLabel, string>> {
  const labels: Partial<Record<ExecuteToolLabel, string>> = { [LABEL.toolName]: label };
  if (call.tool) labels[LABEL.toolType] = toToolType(call.tool);
  if (errorType !== undefined) labels[LABEL.errorType] = errorType;
  return labels;
}

type ExecuteToolLabel = (typeof LABEL)['toolName' | 'toolType' | 'errorType'];

/** Longer than one scrape interval of Prometheus, so that a short outage between two scrapes is visible. */
const FALLBACK_SHOWN_MS = 15_000;

/**
 * Sets `toolfleet_limiter_fallback` to 1 while rate limits are decided locally and for 15 s after, else to 0.
 * @returns a function to call for each local decision
 */
export function limiterFallback(metrics: Metrics, clock: Clock): () => void {
  let lastAt = Number.NEGATIVE_INFINITY;
  metrics.onScrape(() => metrics.limiterFallback.set(clock.monotonic() - lastAt <= FALLBACK_SHOWN_MS ? 1 : 0));
  return () => void (lastAt = clock.monotonic());
}
