import { CATALOGUE, isServerFault, ToolError } from '@toolfleet/contracts';
import { breakerParty, failedResponse, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import { RecentMap, type BreakerJudgement, type BreakerMap } from '@toolfleet/resilience';
import {
  callOperation,
  prepareCall,
  type OperationLimits,
  type OperationMessage,
  type OperationDeps,
} from './call-operation.js';
import { readOptions, type OperationOptions } from './operation-options.js';
import type { VendorAdapters } from './vendor-adapters/find-adapter.js';

/** Runs attempts at operations of OpenAPI documents, behind one breaker per origin. */
export class OpenApiExecutor {
  private readonly options = new RecentMap<string, OperationOptions>({ max: 10_000 });

  constructor(
    private readonly deps: OperationDeps,
    private readonly breakers: BreakerMap,
    private readonly adapters: VendorAdapters,
    private readonly onFailure: (baseUrl: string) => void = () => undefined,
  ) {}

  /**
   * Runs one attempt. Failures after it began are in the response.
   * @throws ToolError ARGUMENTS_INVALID, BREAKER_OPEN, EXECUTOR_UNAVAILABLE: the attempt never began
   */
  async execute(message: ExecMessage, limits: OperationLimits): Promise<ExecResponse> {
    if (!isOperation(message)) {
      throw new ToolError('INTERNAL', {
        message: `openapi-executor received a binding of kind ${message.binding.kind}`,
      });
    }
    const startedAt = this.deps.clock.monotonic();
    const options = this.readOptionsOnce(message);
    const adapter = await this.adapters.find(options.vendorAdapter);
    let prepared;
    try {
      // Checks the URL as registered, before parsing normalizes it.
      this.deps.egress.check(`${message.binding.baseUrl}/`);
      prepared = prepareCall(message, options, adapter);
    } catch (error) {
      if (error instanceof ToolError && CATALOGUE[error.code].origin === 'execution') return failedResponse(error);
      throw error;
    }
    const { origin } = prepared.request;
    // A refused claim says nothing about the upstream, so it bypasses the breaker's count.
    let refusal: ToolError | undefined;
    const outcome = await this.breakers.run<ExecResponse>(
      { key: origin, tenantId: breakerParty(message.context) },
      () =>
        callOperation(prepared, this.deps, limits).catch((error: unknown) => {
          if (!(error instanceof ToolError)) throw error;
          refusal = error;
          return failedResponse(error);
        }),
      (reply) => (refusal ? 'ignored' : classify(reply, message)),
    );
    if (outcome.refused) {
      throw new ToolError('BREAKER_OPEN', {
        message: `Circuit breaker open for ${origin} (too many failures)`,
        details: { base_url: origin },
        retryAfterMs: outcome.retryAfterMs,
      });
    }
    if (refusal) throw refusal;
    if (classify(outcome.value, message) === 'failure') this.onFailure(origin);
    return { ...outcome.value, execute_ms: Math.round(this.deps.clock.monotonic() - startedAt) };
  }

  /** Options are parsed once per revision. */
  private readOptionsOnce(message: OperationMessage): OperationOptions {
    const key = `${message.tool}@${message.revision}`;
    let options = this.options.get(key);
    if (!options) {
      options = readOptions(message.binding.options);
      this.options.set(key, options);
    }
    return options;
  }
}

/**
 * The verdict of an outcome on the upstream. Only its own failures count: of the 4xx 408 and 429, no refusal by the fleet, no cancelled call or
 * shortened deadline. A call counts once, so retries are ignored.
 */
function classify(reply: ExecResponse, { deadlineShortened = false, attempt }: ExecMessage): BreakerJudgement {
  if (reply.ok) return 'success';
  const isDown = attempt > 1 ? 'ignored' : 'failure';
  const code = reply.failure?.code;
  if (code === 'UPSTREAM_ERROR') return isServerFault(reply.failure?.facts?.status ?? 0) ? isDown : 'success';
  if (code === 'ATTEMPT_TIMED_OUT') return deadlineShortened ? 'ignored' : isDown;
  return code === 'NETWORK_ERROR' ? isDown : 'ignored';
}

function isOperation(message: ExecMessage): message is OperationMessage {
  return message.binding.kind === 'openapi';
}
