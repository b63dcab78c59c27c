import { toUsd } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { Meter, type AuditRecord } from '@toolfleet/engine';
import { BoundedLabel, OTHER_LABEL, type Metrics } from '@toolfleet/telemetry';
import { callStatusOf } from './call-status.js';

/** The fleet's figures of calls. Tool names come from the registry only; unknown ones count as `other`. */
export class CallMetrics extends Meter {
  private readonly names = new BoundedLabel();

  constructor(private readonly metrics: Metrics) {
    super();
    // From nothing to one is no rate: the series has to be there before.
    metrics.budgetUnavailable.inc(0);
  }

  override finished(record: AuditRecord): void {
    const { tool, request } = record.call;
    const toolName = tool ? this.names.of(tool.name) : OTHER_LABEL;
    this.metrics.toolExecutions.inc({ tool_name: toolName, status: callStatusOf(record) });
    this.metrics.toolDuration.observe({ tool_name: toolName }, record.durationMs / 1_000);
    if (record.errorType) this.metrics.toolErrors.inc({ tool_name: toolName, error_type: record.errorType });
    if (record.microUsd > 0) this.metrics.toolCostUsd.inc({ tool_name: toolName }, toUsd(record.microUsd));
    if (record.code === 'BUDGET_UNAVAILABLE') this.metrics.budgetUnavailable.inc();
    if (record.code === 'OUTCOME_UNKNOWN') this.metrics.outcomeUnknown.inc({ executor: executorOf(tool) });
    if (record.executeMs !== undefined) {
      this.metrics.gatewayOverhead.observe(
        { door: request.door },
        Math.max(0, record.durationMs - record.executeMs) / 1_000,
      );
    }
  }

  override rateLimited(tool: string): void {
    this.metrics.rateLimitExceeded.inc({ tool_name: this.names.of(tool) });
  }

  override tokensAvailable(tool: string, tokens: number): void {
    this.metrics.rateLimitTokens.set({ tool_name: this.names.of(tool) }, tokens);
  }

  override outputMismatched(tool: string): void {
    this.metrics.outputMismatch.inc({ tool_name: this.names.of(tool) });
  }

  override retried(tool: string): void {
    this.metrics.retries.inc({ executor: this.names.of(tool), reason: 'attempt_failed' });
  }
}

const executorOf = (tool: RegisteredTool | undefined): string => tool?.binding.kind ?? OTHER_LABEL;
