import { hash } from 'node:crypto';
import { type Milliseconds, type Principal, ToolError, isToolError } from '@toolfleet/contracts';
import type { SignInSession } from '@toolfleet/contracts/identity';
import type { MessageOf, ReplyOf, Requested } from '@toolfleet/contracts/requests';
import { parseToolsetRef } from '@toolfleet/contracts/toolset';
import { RecentMap, type Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';
import { unauthenticated } from './credential.js';
import { effectiveRoles } from './roles.js';
import type { Verified } from './verified-cache.js';

/** Subjects that answer with the session of a token. */
type LookUp = 'identity.session.get' | 'identity.client.get';

/** A session is looked up while its request waits. */
const LOOK_UP_MS = 3_000;

/** The digest under which the service `identity` knows the session of a cookie. */
export const sessionDigest = (secret: string): string => hash('sha256', secret, 'base64url');

/** Form of an access token of an OAuth client. */
export const CLIENT_TOKEN_PATTERN = /^[A-Za-z0-9_-]{43}$/;

/** A token that `identity` does not know is refused for this time without another question. Tokens are random, so none becomes valid later. */
const UNKNOWN_MS: Milliseconds = 60_000;
const MAX_UNKNOWN = 20_000;
/** Look-ups at once: anyone can send made-up tokens, so they get a share of the service and no more. */
const MAX_LOOK_UPS = 100;

/** Sign-in sessions of people, kept by the service `identity`. */
export class UserSessions {
  /** Instants until which digests of tokens are refused. */
  readonly #unknown = new RecentMap<string, Milliseconds>({ max: MAX_UNKNOWN });
  #lookUps = 0;

  constructor(
    private readonly nats: Pick<NatsClient, 'ask'>,
    private readonly clock: Clock,
  ) {}

  /** The user of a session cookie. @throws ToolError UNAUTHENTICATED; SERVICE_UNAVAILABLE when sessions cannot be looked up */
  async verify(secret: string): Promise<Verified> {
    const digest = sessionDigest(secret);
    const { session } = await this.#lookUp(`session ${digest}`, 'identity.session.get', { digest });
    if (!session) throw unauthenticated('signed_out');
    return { principal: toPrincipal(session, 'session'), expiresAt: session.expires_at };
  }

  /**
   * The user of an OAuth client. A token for the endpoint of a toolset is bound to that toolset.
   * @throws ToolError UNAUTHENTICATED; SERVICE_UNAVAILABLE
   */
  async verifyClient(token: string): Promise<Verified> {
    const key = `client ${sessionDigest(token)}`;
    const found = await this.#lookUp(key, 'identity.client.get', { token });
    if (!found.session) throw unauthenticated();
    const principal = toPrincipal(found.session, 'oauth');
    const [, ref] = /^\/mcp\/t\/([^/]+)$/.exec(found.resource ?? '') ?? [];
    const toolset = ref === undefined ? undefined : parseToolsetRef(ref);
    if (ref !== undefined && !toolset) throw unauthenticated();
    const bound =
      toolset && ({ ...toolset, bound: toolset.version === undefined ? 'to_latest' : 'to_version' } as const);
    return { principal: bound ? { ...principal, toolset: bound } : principal, expiresAt: found.expires_at };
  }

  /** Whether a session is valid, and its user still has these roles. @throws ToolError SERVICE_UNAVAILABLE */
  async isLive(sessionId: string, roles: readonly string[]): Promise<boolean> {
    const { live, roles: held } = await this.#ask('identity.session.live', { session_id: sessionId });
    return live && roles.every((role) => held?.includes(role) ?? true);
  }

  /** Asks once for a token that is unknown. @throws ToolError SERVICE_UNAVAILABLE, also for too many look-ups at once */
  async #lookUp<S extends LookUp>(key: string, subject: S, body: MessageOf<S>): Promise<Partial<ReplyOf<S>>> {
    if ((this.#unknown.get(key) ?? 0) > this.clock.monotonic()) return {};
    if (this.#lookUps >= MAX_LOOK_UPS)
      throw new ToolError('SERVICE_UNAVAILABLE', {
        message: 'Too many sign-in sessions are looked up at the moment; retry later.',
        retryAfterMs: 1_000,
      });
    this.#lookUps += 1;
    try {
      const reply = await this.#ask(subject, body);
      if (!reply.session) this.#unknown.set(key, this.clock.monotonic() + UNKNOWN_MS);
      return reply;
    } finally {
      this.#lookUps -= 1;
    }
  }

  async #ask<S extends Requested>(subject: S, body: MessageOf<S>): Promise<ReplyOf<S>> {
    try {
      return await this.nats.ask(subject, body, { timeoutMs: LOOK_UP_MS });
    } catch (cause) {
      if (isToolError(cause) && cause.code === 'UNAUTHENTICATED') throw cause;
      const message = 'Sign-in sessions cannot be looked up at the moment; retry later.';
      throw new ToolError('SERVICE_UNAVAILABLE', { message, cause });
    }
  }
}

function toPrincipal(session: SignInSession, via: 'session' | 'oauth'): Principal {
  const { tenant_id: tenantId, user_id: userId, roles, session_id: sessionId, expires_at: expiresAt } = session;
  return { tenantId, userId, roles: effectiveRoles(tenantId, roles), tools: ['*'], via, sessionId, expiresAt };
}
