import type { CallRequest, Json } from '@toolfleet/contracts';
import type { ToolInput } from '@toolfleet/contracts/execution';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { canonicalJson, fingerprint } from '@toolfleet/schema';
import { callsTools } from './authorize.js';
import { contextFor, userIdOf } from './inject-context.js';

/** What the tool of a call can observe; executors receive exactly this (`execMessageOf`). */
export function toolInputOf(tool: RegisteredTool, request: CallRequest, args: ToolInput['arguments']): ToolInput {
  return {
    tool: tool.name,
    revision: tool.revision,
    arguments: args,
    context: { ...contextFor(tool, request), tenant_id: request.principal.tenantId },
  };
}

/**
 * The identity of a call: which other calls may have its answer. Every key is derived from what the tool can observe, when
 * it is first used, and once for all attempts. Cache, single flight, session history and idempotency take their keys here.
 */
export class CallIdentity {
  #resultKey: string | undefined;
  #fingerprint: string | undefined;

  constructor(
    private readonly input: ToolInput,
    private readonly request: CallRequest,
    tool: RegisteredTool,
  ) {
    this.isShareable = !callsTools(tool);
  }

  /** False for tools that call tools: each call receives a token and an allowance of its own, so no two are the same. */
  readonly isShareable: boolean;

  /** Key of the result: SHA-256 of tenant, tool, revision, canonical arguments (RFC 8785) and the context the tool sees. */
  get resultKey(): string {
    return (this.#resultKey ??= fingerprint(this.input as unknown as Json));
  }

  /** The session of the call as one user's; undefined without a session. */
  get sessionKey(): string | undefined {
    const { context, principal } = this.request;
    if (typeof context.session_id !== 'string') return undefined;
    return JSON.stringify([principal.tenantId, userIdOf(this.request), context.session_id]);
  }

  /**
   * The caller's idempotency key as one user's, unique within the tenant: the authenticated user, and the one a trusted
   * caller acts for. Another user may send the same key.
   */
  get idempotencyKey(): string {
    const { principal, idempotencyKey = '' } = this.request;
    return JSON.stringify([principal.userId, userIdOf(this.request), idempotencyKey]);
  }

  /** What a repeated idempotency key must match. Without the revision: a redeploy must not turn a replay into a mismatch. */
  get fingerprint(): string {
    const { revision: _revision, ...input } = this.input;
    return (this.#fingerprint ??= fingerprint(input as unknown as Json));
  }
}

/**
 * Equal for requests of one caller that differ in nothing the caller can say, before the tool is known: two calls of a batch
 * are the same only when they would be whatever the tool may see.
 */
export function requestKey(request: CallRequest): string {
  const { callId: _id, deadlineAt: _deadline, signal: _signal, onProgress: _progress, ...said } = request;
  return canonicalJson(said as unknown as Json);
}
