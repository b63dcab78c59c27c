import type { CallContext, CallRequest, Json } from '@toolfleet/contracts';
import type { ToolInput } from '@toolfleet/contracts/execution';
import type { ContextKey, RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { fingerprint, identityText, sha256Hex } from '@toolfleet/bounded-schema';

/**
 * Builds everything the tool can observe of a call; executors receive exactly this (`toExecMessage`). The tenant is always part
 * of it, for breakers, workspaces and fair queues of the executor; it reaches the tool itself only if its definition declares it.
 */
export function toToolInput(tool: RegisteredTool, request: CallRequest, args: ToolInput['arguments']): ToolInput {
  return {
    tool: tool.name,
    revision: tool.revision,
    arguments: args,
    context: { ...toToolContext(tool, request), tenant_id: request.principal.tenantId },
  };
}

/** Context keys that a session-aware tool receives on every entry point. */
const SESSION_KEYS: readonly ContextKey[] = ['session_id', 'user_id'];
/** Context keys of public callers. Their entry points take `project_id` from the credential, never from the body of a request. */
const PUBLIC_KEYS: readonly ContextKey[] = [...SESSION_KEYS, 'project_id'];

/**
 * Selects the part of the caller's context that a tool receives: `session_id` and `user_id` for session-aware tools, and the
 * `context_keys` of the definition, of which calls of public callers have these two and `project_id` only. The context travels
 * separately from the arguments, so a model never sees it.
 */
function toToolContext(tool: RegisteredTool, request: CallRequest): CallContext {
  const declared = (tool.context_keys ?? []).filter((key) => key !== 'tenant_id'); // taken from the credential
  const allowed = request.origin === 'internal' ? declared : declared.filter((key) => PUBLIC_KEYS.includes(key));
  const context: CallContext = {};
  for (const key of tool.session_aware ? [...SESSION_KEYS, ...allowed] : allowed) {
    const value = contextValue(tool, request, key);
    if (value !== undefined && value !== '') context[key] = value;
  }
  if (context.project_id !== undefined) context.create_project = request.context.create_project;
  return context;
}

function contextValue(tool: RegisteredTool, request: CallRequest, key: ContextKey): Json | undefined {
  if (key === 'user_id') return actingUserId(request);
  if (key !== 'session_id' || request.context.session_id !== undefined) return request.context[key];
  const { exchangeSession: session } = request;
  return session?.scope === 'principal' && tool.binding.kind === 'python' ? undefined : session?.id;
}

/** The user that a call is made for: the authenticated user, or the one that an internal caller names in the context. */
export function actingUserId(request: CallRequest): string {
  const named = request.context.user_id;
  const isTrusted = request.origin === 'internal' && typeof named === 'string' && named !== '';
  return isTrusted ? named : request.principal.userId;
}

/** Longest canonical text that is a key itself: hashing a short one costs more than the lookups it is used for. */
const MAX_KEY_CHARS = 512;

/**
 * The identity of a call decides which other calls may share its result. All keys derive from the tool's observable input; each is
 * computed when it is first used, once for all attempts. Cache, session dedupe, single flight and idempotency keys use it.
 */
export class CallIdentity {
  #resultKey: string | undefined;
  #fingerprint: string | undefined;

  /**
   * @param isShareable false for calls that never share a result: calls of tools that call tools, because each has its own token
   *   and allowance, and of `read_result`, because its answer depends on the credential
   */
  constructor(
    private readonly input: ToolInput,
    private readonly request: CallRequest,
    readonly isShareable: boolean,
  ) {}

  /**
   * The identity text of tenant, tool, revision, arguments and the context that the tool receives; the SHA-256 of a long one. It
   * contains the caller's arguments: hash it before it leaves the process.
   */
  get resultKey(): string {
    if (this.#resultKey === undefined) {
      const text = identityText(this.input as unknown as Json);
      this.#resultKey = text.length > MAX_KEY_CHARS ? sha256Hex(text) : text;
    }
    return this.#resultKey;
  }

  /** Identifies the session within its user and tenant; undefined for a call without a session. */
  get sessionKey(): string | undefined {
    const { context, principal } = this.request;
    if (typeof context.session_id !== 'string') return undefined;
    return JSON.stringify([principal.tenantId, actingUserId(this.request), context.session_id]);
  }

  /**
   * Identifies the caller's idempotency key within the tenant. Includes the authenticated user and the user that a trusted caller
   * acts for, so that two users may send the same key. Keys of the calls of programs are apart from those that callers send, so
   * that a caller cannot use one before its program does.
   */
  get idempotencyKey(): string {
    const { principal, reuse, entryPoint } = this.request;
    const { idempotencyKey = '' } = reuse;
    const owner = [principal.userId, actingUserId(this.request), idempotencyKey];
    return JSON.stringify(entryPoint === 'program' ? [...owner, entryPoint] : owner);
  }

  /** Digest that a repeated idempotency key has to match. Excludes the revision, so that a redeploy does not turn replays into mismatches. */
  get fingerprint(): string {
    const { revision: _revision, ...input } = this.input;
    return (this.#fingerprint ??= fingerprint(input as unknown as Json));
  }
}

/**
 * Compares requests before their tool is known: equal keys mean that the caller sent the same thing twice. Two items of a batch
 * are the same call only then, whatever the tool would observe.
 */
export function requestKey(request: CallRequest, idempotencyKey: string | undefined): string {
  const { callId: _id, signal: _signal, onProgress: _progress, limits, reuse, ...sent } = request;
  const { deadlineAt: _deadline, ...bounds } = limits;
  return identityText({ ...sent, limits: bounds, reuse: { ...reuse, idempotencyKey } } as unknown as Json);
}
