import { randomUUID } from 'node:crypto';
import type { CallContext, CallMessage, CallRequest, Origin, Principal } from '@toolfleet/contracts';
import { requestFields } from '@toolfleet/contracts/call-fields';
import { HEADERS } from '@toolfleet/contracts/subjects';
import type { Clock } from '@toolfleet/resilience';
import type { EndpointContext } from '@toolfleet/transport';
import { natsPrincipal, type NatsTrust } from '../auth/nats-principal.js';

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
      ...requestFields(message),
    };
  }
}

function contextOf(principal: Principal, message: CallMessage, origin: Origin): CallContext {
  const { session_id, project_id, model, prompt_params } = message;
  if (origin === 'public') return { user_id: principal.userId, session_id };
  // A service calls for its users: it may say for whom. The tenant always comes from the credential.
  return { user_id: message.user_id ?? principal.userId, session_id, project_id, model, prompt_params };
}
