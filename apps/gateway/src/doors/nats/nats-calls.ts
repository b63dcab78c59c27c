import { randomUUID } from 'node:crypto';
import {
  HEADERS,
  type CallContext,
  type CallMessage,
  type CallRequest,
  type Origin,
  type Principal,
  type SpendingScopes,
} from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { EndpointContext } from '@toolfleet/transport';
import { natsPrincipal, type NatsTrust } from '../../auth/nats-principal.js';

/** Makes call requests of NATS messages: who calls, with which rights, until when. */
export class NatsCalls {
  readonly #admitted = new WeakMap<EndpointContext, Principal>();

  constructor(
    private readonly trust: NatsTrust,
    private readonly clock: Clock,
    /** Longest call in ms. */
    private readonly maxCallMs: number,
    /** Counts a message against the limits of its sender. @throws ToolError RATE_LIMITED */
    private readonly countRequest: (principal: Principal) => Promise<void>,
  ) {}

  /** Proves the sender of a message, and counts it, before its body is read. @throws ToolError UNAUTHENTICATED, RATE_LIMITED */
  async admit(context: EndpointContext): Promise<void> {
    const authorization = context.headers.get(HEADERS.authorization);
    const caller = { subject: context.subject, authorization: authorization === undefined ? [] : [authorization] };
    const principal = await natsPrincipal(caller, this.trust);
    await this.countRequest(principal);
    this.#admitted.set(context, principal);
  }

  /** The sender that `admit` has proved. */
  callerOf(context: EndpointContext): Principal {
    const principal = this.#admitted.get(context);
    if (!principal) throw new Error('no principal: the message was not admitted');
    return principal;
  }

  /** One call. Publishers are internal callers and may send context; a tool acts with the origin of its own call. */
  requestOf(principal: Principal, message: CallMessage, context: EndpointContext): CallRequest {
    const origin: Origin = principal.via === 'delegation' ? (principal.parentOrigin ?? 'public') : 'internal';
    const askedMs = Math.min(message.timeout_ms ?? this.maxCallMs, this.maxCallMs, context.timeLeftMs);
    return {
      callId: randomUUID(),
      toolName: message.name,
      rawArguments: message.arguments,
      principal,
      origin,
      door: 'nats',
      context: contextOf(principal, message, origin),
      deadlineAt: this.clock.now() + askedMs,
      signal: context.signal,
      ...spendsOf(message),
      ...(message.idempotency_key === undefined ? {} : { idempotencyKey: message.idempotency_key }),
      ...(message.timeout_ms === undefined ? {} : { timeoutMs: message.timeout_ms }),
      ...(message.no_retry ? { noRetry: true } : {}),
      ...(message.dry_run ? { dryRun: true } : {}),
    };
  }
}

function spendsOf(message: CallMessage): Partial<SpendingScopes> {
  return {
    ...(message.request_id === undefined ? {} : { requestId: message.request_id }),
    ...(message.agent_id === undefined ? {} : { agentId: message.agent_id }),
    ...(message.task_id === undefined ? {} : { taskId: message.task_id }),
  };
}

function contextOf(principal: Principal, message: CallMessage, origin: Origin): CallContext {
  const session = message.session_id === undefined ? {} : { session_id: message.session_id };
  if (origin === 'public') return { user_id: principal.userId, ...session };
  return {
    // A service calls for its users: it may say for whom. The tenant always comes from the credential.
    user_id: message.user_id ?? principal.userId,
    ...session,
    ...(message.project_id === undefined ? {} : { project_id: message.project_id }),
    ...(message.model === undefined ? {} : { model: message.model }),
    ...(message.prompt_params === undefined ? {} : { prompt_params: message.prompt_params }),
  };
}
