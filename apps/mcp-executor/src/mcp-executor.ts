import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import {
  breakerParty,
  type DiscoverMessage,
  type DiscoverReply,
  type ExecMessage,
  type ExecResponse,
} from '@toolfleet/contracts/execution';
import type { McpBinding } from '@toolfleet/contracts/tool-definition';
import type { BreakerMap, Clock } from '@toolfleet/resilience';
import type { UserCredentials } from '@toolfleet/service/executor';
import { callFunction, type FunctionDeps } from './call-function.js';
import { callMcpTool, type Attempt, type AttemptLimits } from './call-mcp-tool.js';
import { discoverServer, readDiscoveryTarget } from './discover-server.js';
import { HeldCalls } from './held-calls.js';
import { asUser, readTarget, toBaseUrl, type McpTarget } from './mcp-target.js';
import type { SessionPool } from './session-pool.js';
import { redactSecrets } from './tool-result.js';

/** Parsed targets kept; the oldest is dropped. */
const MAX_TARGETS = 5_000;

/** Settings of the executor. */
interface McpExecutorOptions {
  /** Called for each failure that counts for a breaker. */
  onTargetFault?: (baseUrl: string) => void;
}

/** Calls tools of remote MCP servers and plain function endpoints, behind one breaker per base URL. */
export class McpExecutor {
  /** Parsed targets by tool and revision: options are read once per definition. */
  private readonly targets = new Map<string, McpTarget>();
  /** Calls with questions to callers. */
  readonly held: HeldCalls;

  constructor(
    private readonly pool: SessionPool,
    private readonly breakers: BreakerMap,
    private readonly functions: FunctionDeps,
    private readonly clock: Clock,
    private readonly options: McpExecutorOptions,
    /** For sources with calls that act as users. */
    private readonly users?: UserCredentials,
  ) {
    this.held = new HeldCalls(clock);
  }

  /**
   * Runs one attempt. What happens once it has begun is in the response.
   * @throws ToolError BREAKER_OPEN before the attempt began; INTERNAL for a binding of another executor
   */
  async execute(message: ExecMessage, limits: AttemptLimits): Promise<ExecResponse> {
    if (!isMcp(message)) {
      throw new ToolError('INTERNAL', { message: `mcp-executor received a binding of kind ${message.binding.kind}` });
    }
    const startedAt = this.clock.monotonic();
    const target = this.targetOf(message);
    const baseUrl = toBaseUrl(target);
    const outcome = await this.breakers.run<Attempt>(
      { key: baseUrl, tenantId: breakerParty(message.context) },
      () =>
        target.transport === 'function-args'
          ? callFunction(message, target, { ...this.functions, users: this.users }, this.clock, limits)
          : callMcpTool(message, target, { pool: this.pool, held: this.held, clock: this.clock }, limits),
      ({ reply, targetFault }) => {
        const code = reply.failure?.code;
        // A call counts once: its repeats are not evidence of their own.
        if (targetFault && message.attempt === 1 && !(message.deadlineShortened && code === 'ATTEMPT_TIMED_OUT')) {
          this.options.onTargetFault?.(baseUrl);
          return 'failure';
        }
        // A disconnected caller, a short deadline and the egress guard are not evidence about the target.
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
    const reply = redactSecrets(outcome.value.reply);
    return {
      ...(this.users?.redact(target.user?.grant, reply) ?? reply),
      execute_ms: Math.round(this.clock.monotonic() - startedAt),
    };
  }

  /** Lists the tools of a server. Bypasses the breaker: discovery is how a recovered server is found. */
  discover(message: DiscoverMessage, limits: { timeoutMs: Milliseconds; signal: AbortSignal }): Promise<DiscoverReply> {
    return discoverServer(readDiscoveryTarget(message), this.pool, this.clock, limits);
  }

  /** The target of one call. @throws ToolError AUTH_NOT_CONFIGURED */
  private targetOf(message: ExecMessage & { binding: McpBinding }): McpTarget {
    const target = this.getTarget(message);
    const { auth } = message.binding;
    if (!auth || !this.users) return target;
    return asUser(target, { grant: this.users.note(message.context), header: auth.user.header });
  }

  private getTarget(message: ExecMessage & { binding: McpBinding }): McpTarget {
    const { server, transport, url, options } = message.binding;
    // The gateway adds its default limits to options without them.
    const id = [message.tool, message.revision, options?.timeout_seconds, options?.max_response_bytes].join('@');
    let target = this.targets.get(id);
    if (!target) {
      target = readTarget(server, transport, url, options ?? {});
      if (this.targets.size >= MAX_TARGETS) this.targets.delete(this.targets.keys().next().value as string);
      this.targets.set(id, target);
    }
    return target;
  }
}

function isMcp(message: ExecMessage): message is ExecMessage & { binding: McpBinding } {
  return message.binding.kind === 'mcp';
}
