import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import type { DiscoverMessage, DiscoverReply, ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import type { McpBinding } from '@toolfleet/contracts/tool-definition';
import type { BreakerMap, Clock } from '@toolfleet/resilience';
import { callFunction, type FunctionParts } from './call-function.js';
import { callMcpTool, type Attempt, type AttemptLimits } from './call-mcp-tool.js';
import { discoverServer, discoveryTarget } from './discover-server.js';
import { baseUrlOf, readTarget, type McpTarget } from './mcp-target.js';
import type { SessionPool } from './session-pool.js';
import { redactSecrets } from './without-secrets.js';

/** Figures of the service. */
export interface ExecutorFigures extends Omit<FunctionParts, 'egress' | 'expand'> {
  /** Longest silence of a call whose server names none (!5: 30 s). */
  defaultIdleMs: Milliseconds;
  /** Told of every failure that counts for a breaker. */
  onTargetFault?: (baseUrl: string) => void;
}

/** Calls tools of remote MCP servers and plain function endpoints, behind one breaker per base URL. */
export class McpExecutor {
  /** Read targets by revision: options are parsed once per definition, not per call. */
  private readonly targets = new Map<string, McpTarget>();

  constructor(
    private readonly pool: SessionPool,
    private readonly breakers: BreakerMap,
    private readonly functions: FunctionParts,
    private readonly clock: Clock,
    private readonly figures: ExecutorFigures,
  ) {}

  /**
   * One attempt. What happened after it began is in the reply.
   * @throws ToolError BREAKER_OPEN: the attempt never began
   */
  async execute(message: ExecMessage, limits: Omit<AttemptLimits, 'defaultIdleMs'>): Promise<ExecResponse> {
    if (!isMcp(message)) {
      throw new ToolError('INTERNAL', { message: `mcp-executor got a binding of kind ${message.binding.kind}` });
    }
    const startedAt = this.clock.monotonic();
    const target = this.targetOf(message);
    const baseUrl = baseUrlOf(target);
    const all: AttemptLimits = { ...limits, defaultIdleMs: this.figures.defaultIdleMs };
    const outcome = await this.breakers.run<Attempt>(
      { key: baseUrl, tenantId: message.context.tenant_id },
      () =>
        target.transport === 'function-args'
          ? callFunction(message, target, this.functions, all)
          : callMcpTool(message, target, this.pool, this.clock, all),
      ({ reply, targetFault }) => {
        const code = reply.failure?.code;
        // A call counts once: what repeats of it meet says nothing new.
        if (targetFault && message.attempt === 1 && !(message.deadlineShortened && code === 'ATTEMPT_TIMED_OUT')) {
          this.figures.onTargetFault?.(baseUrl);
          return 'failure';
        }
        // A caller that went away or was in a hurry, or our own guard, says nothing about the target.
        return targetFault || code === 'CANCELLED' || code === 'EGRESS_REFUSED' || code === 'DEADLINE_EXCEEDED'
          ? 'ignored'
          : 'success';
      },
    );
    if (outcome.refused) {
      throw new ToolError('BREAKER_OPEN', {
        message: `Circuit breaker open for ${baseUrl} (too many failures)`,
        details: { base_url: baseUrl },
        retryAfterMs: outcome.retryAfterMs,
      });
    }
    return { ...redactSecrets(outcome.value.reply), execute_ms: Math.round(this.clock.monotonic() - startedAt) };
  }

  /** The tools of a server. Outside the breaker: discovery is how an operator finds out that a server is back. */
  discover(message: DiscoverMessage, limits: { timeoutMs: Milliseconds; signal: AbortSignal }): Promise<DiscoverReply> {
    return discoverServer(discoveryTarget(message), this.pool, this.clock, limits);
  }

  private targetOf(message: ExecMessage & { binding: McpBinding }): McpTarget {
    const { server, transport, url, options } = message.binding;
    const id = `${message.tool}@${message.revision}`;
    let target = this.targets.get(id);
    if (!target) {
      target = readTarget(server, transport, url, options ?? {});
      if (this.targets.size >= MAX_TARGETS) this.targets.delete(this.targets.keys().next().value as string);
      this.targets.set(id, target);
    }
    return target;
  }
}

const MAX_TARGETS = 5_000;

function isMcp(message: ExecMessage): message is ExecMessage & { binding: McpBinding } {
  return message.binding.kind === 'mcp';
}
