import {
  type CallContext,
  type CallMessage,
  type CallRequest,
  type Origin,
  type Principal,
  isReservedTenant,
  LOCAL_TENANT,
  natsUserId,
  type ToolError,
} from '@toolfleet/contracts';
import { callRequest } from '@toolfleet/contracts/call-fields';
import { HEADERS, SUBJECTS } from '@toolfleet/contracts/subjects';
import { newCallId } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import type { EndpointContext } from '@toolfleet/transport';
import { type RequestLimits, type Authenticate, Projects, readCredential, unauthenticated } from '@toolfleet/access';
import type { BatchSender } from '../calls/tool-calls.js';

/** Turns NATS messages into call requests: authenticates the sender, counts the message, sets rights and deadline. */
export class NatsCalls {
  readonly #admitted = new WeakMap<EndpointContext, Principal>();

  constructor(
    private readonly trust: NatsTrust,
    private readonly clock: Clock,
    /** Longest call in ms. */
    private readonly maxCallMs: number,
    private readonly limits: Pick<RequestLimits, 'count'>,
    private readonly projects: Projects = new Projects(),
  ) {}

  /** Authenticates the sender of a message and counts it, before the body is read. @throws ToolError UNAUTHENTICATED, RATE_LIMITED */
  async admit(context: EndpointContext): Promise<void> {
    // Errors carry the id of the call; the one that a caller sends is not used.
    context.callId = isSingleCall(context.subject) ? newCallId(this.clock.now()) : undefined;
    const values = (name: string) => [context.headers.get(name)].filter((value) => value !== undefined);
    const caller = {
      subject: context.subject,
      authorization: values(HEADERS.authorization),
      apiKey: values(HEADERS.apiKey),
    };
    const sender = await natsPrincipal(caller, this.trust);
    await this.limits.count(sender);
    const principal = await this.trust.selectToolset(sender, context.headers.get(HEADERS.toolset));
    this.#admitted.set(context, principal);
  }

  /** The sender that `admit` has authenticated. */
  caller(context: EndpointContext): Principal {
    const principal = this.#admitted.get(context);
    if (!principal) throw new Error('no principal: the message was not admitted');
    return principal;
  }

  /** The sender of a batch. */
  batchSender(context: EndpointContext): BatchSender {
    const deadlineAt = this.clock.now() + Math.min(this.maxCallMs, context.timeLeftMs);
    return { caller: this.caller(context), deadlineAt };
  }

  /** The request of one call, or of one item of a batch. Internal callers may send context. */
  toCallRequest(principal: Principal, message: CallMessage, context: EndpointContext): CallRequest {
    const origin = toOrigin(principal);
    const { name, arguments: args, ...fields } = message;
    return callRequest(
      { id: context.callId ?? newCallId(this.clock.now()), tool: name, arguments: args, fields },
      {
        principal,
        origin,
        entryPoint: 'nats',
        context: this.toCallContext(principal, message, origin),
        signal: context.signal,
      },
      { beginsAt: this.clock.now(), maxMs: Math.min(this.maxCallMs, context.timeLeftMs) },
    );
  }

  private toCallContext(principal: Principal, message: CallMessage, origin: Origin): CallContext {
    const { session_id, project_id: id, create_project: create, model, prompt_params } = message;
    if (origin === 'public')
      return { user_id: principal.userId, session_id, ...this.projects.choose(principal, origin, { id }) };
    const project = this.projects.choose(principal, origin, { id, create });
    // A service may name the user it calls for. The tenant always comes from the credential.
    return { user_id: message.user_id ?? principal.userId, session_id, ...project, model, prompt_params };
  }
}

function isSingleCall(subject: string): boolean {
  return subject === SUBJECTS.toolCall || subject.startsWith(`${SUBJECTS.toolCall}.`);
}

/** Publishers are internal callers; a tool acts with the origin of its call. */
export function toOrigin({ via, parentOrigin = 'public' }: Principal): Origin {
  return via === 'delegation' ? parentOrigin : 'internal';
}

/** What identifies the sender of a NATS message. */
interface NatsCaller {
  subject: string;
  /** All values of the `Authorization` header. */
  authorization: readonly string[];
  /** All values of the `X-API-Key` header. */
  apiKey?: readonly string[];
}

interface NatsTrust {
  authenticate: Authenticate;
  /** The sender with the toolset that its message names. @throws ToolError as `Toolsets.select` */
  selectToolset(principal: Principal, requested: string | undefined): Principal | Promise<Principal>;
  /** Local mode: bare subjects without a key are accepted, without any role. */
  local: boolean;
  /** Must be false unless the server runs `deploy/nats.conf`; otherwise anyone could publish on a tenant's subject. */
  trustTenantSubjects: boolean;
  /** Called for a sender that is refused without a look at its credential. */
  onRefused?: () => void;
}

const VERBS = [SUBJECTS.toolCall, SUBJECTS.toolBatch, SUBJECTS.toolList, SUBJECTS.toolCancel] as const;
const TENANT_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Identifies the sender of a NATS message. NATS does not tell a responder who published, so it is the key in the header, else the
 * subject `tool.call.<tenant>`; the server lets only that tenant's user publish it.
 * @throws ToolError UNAUTHENTICATED, also for a key of one tenant on the subject of another
 */
export async function natsPrincipal(caller: NatsCaller, trust: Omit<NatsTrust, 'selectToolset'>): Promise<Principal> {
  const tenantId = readTenant(caller.subject, trust);
  const credential = readCredential(caller.authorization, caller.apiKey ?? []);
  if (credential) {
    const principal = await trust.authenticate(credential);
    if (tenantId !== undefined && tenantId !== principal.tenantId) throw refused(trust);
    return principal;
  }
  if (tenantId !== undefined) {
    if (!trust.trustTenantSubjects || isReservedTenant(tenantId)) throw refused(trust);
    return { tenantId, userId: natsUserId(tenantId), roles: [], tools: ['*'], via: 'nats_subject' };
  }
  if (!trust.local) throw refused(trust);
  return { tenantId: LOCAL_TENANT, userId: natsUserId(LOCAL_TENANT), roles: [], tools: ['*'], via: 'local' };
}

/** The tenant in `tool.<verb>.<tenant>`; undefined for the bare subject. @throws ToolError UNAUTHENTICATED for other subjects */
function readTenant(subject: string, trust: Pick<NatsTrust, 'onRefused'>): string | undefined {
  // For tools of the fleet with a delegation token; tenants have no subject for it.
  if (subject === SUBJECTS.toolSpend) return undefined;
  for (const verb of VERBS) {
    if (subject === verb) return undefined;
    if (subject.startsWith(`${verb}.`)) {
      const tenant = subject.slice(verb.length + 1);
      if (TENANT_PATTERN.test(tenant)) return tenant;
    }
  }
  throw refused(trust);
}

/** Refusals of `authenticate` are counted there. */
function refused({ onRefused }: Pick<NatsTrust, 'onRefused'>): ToolError {
  onRefused?.();
  return unauthenticated();
}
