import { isToolError, ToolError, type Milliseconds } from '@toolfleet/contracts';
import { parseExact, toExactJson } from '@toolfleet/contracts/json-text';
import type { ExecContext, ExecResponse } from '@toolfleet/contracts/execution';
import type { GrantsChanged, GrantToken, GrantTokenReply } from '@toolfleet/contracts/identity';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { RecentMap, SingleFlight, type Clock } from '@toolfleet/resilience';
import { redactorOf } from '@toolfleet/telemetry';
import type { NatsClient } from '@toolfleet/transport';
import type { LifecycleComponent } from './lifecycle.js';

/** Grants of which an executor keeps something; the least recently used ones are dropped. */
const MAX_GRANTS = 10_000;
/** Longest wait for `identity` (it may wait for an authorization server). */
const ASK_MS: Milliseconds = 25_000;
/** A replica that was killed does not answer: the question is sent again. A replica shares the work of repeated questions. */
const AGAIN_MS: Milliseconds = 3_000;

/** The credential of a user at an upstream. */
export interface UserCredential extends Pick<GrantTokenReply, 'kind' | 'value' | 'generation'> {
  /** Monotonic instant until which it is used without asking again. */
  until: Milliseconds;
  redact(text: string): string | undefined;
}

/**
 * Credentials of users that executors ask `identity` for with the token of a call. They are kept in memory for at most a minute, less if
 * they expire, and forgotten at once when the user disconnects. Concurrent calls with one grant share a request.
 */
export class UserCredentials {
  readonly #kept = new RecentMap<string, UserCredential>({ max: MAX_GRANTS });
  /** The token of the newest call with a grant: connections outlive the call that opened them. */
  readonly #tokens = new RecentMap<string, string>({ max: MAX_GRANTS });
  readonly #flights = new SingleFlight<UserCredential>();
  readonly #listeners = new Set<(grant: string) => void>();
  /** Counts changes, so that an answer from before one is not kept. */
  #changes = 0;

  constructor(
    private readonly nats: Pick<NatsClient, 'ask' | 'subscribe'>,
    private readonly clock: Clock,
  ) {}

  /** Follows `identity.grant.changed`; starts after the connection. */
  asComponent(): LifecycleComponent {
    return {
      name: 'credentials of users',
      start: async () =>
        void this.nats.subscribe(SUBJECTS.grantChanged, ({ body }) => {
          this.#changes += 1;
          for (const { grant_id: grant } of (body as unknown as GrantsChanged).grants) {
            this.#kept.delete(grant);
            this.#tokens.delete(grant);
            for (const listener of this.#listeners) listener(grant);
          }
        }),
    };
  }

  /** Calls a function with each grant that was revoked or replaced, for connections that use its credential. */
  onForgotten(listener: (grant: string) => void): void {
    this.#listeners.add(listener);
  }

  /**
   * Notes the token of a call, with which its credential can be requested.
   * @returns the grant of the call
   * @throws ToolError AUTH_NOT_CONFIGURED when the gateway sent none
   */
  note({ grant, grant_token: token }: Pick<ExecContext, 'grant' | 'grant_token'>): string {
    if (grant === undefined || token === undefined)
      throw new ToolError('AUTH_NOT_CONFIGURED', { message: 'The gateway sent no grant of the user with this call' });
    this.#tokens.set(grant, token);
    return grant;
  }

  /**
   * The credential of a grant.
   * @param refused generation that the upstream refused: another one is requested
   * @throws ToolError AUTHORIZATION_REQUIRED when the user has to connect again; SERVICE_UNAVAILABLE
   */
  async get(grant: string, signal: AbortSignal, refused?: number): Promise<UserCredential> {
    const kept = this.#kept.get(grant);
    if (kept && kept.until > this.clock.monotonic() && kept.generation !== refused) return kept;
    const work = (flightSignal: AbortSignal) => this.#ask(grant, refused, flightSignal);
    return (await this.#flights.join(`${grant} ${refused ?? ''}`, signal, work)).value;
  }

  /** A response without the credential that was sent: the upstream may echo its request. */
  redact(grant: string | undefined, response: ExecResponse): ExecResponse {
    const kept = grant === undefined ? undefined : this.#kept.get(grant);
    const redacted = kept?.redact(toExactJson(response));
    return redacted === undefined ? response : parseExact<ExecResponse>(redacted).value;
  }

  async #ask(grant: string, refused: number | undefined, signal: AbortSignal): Promise<UserCredential> {
    const changes = this.#changes;
    const token = this.#tokens.get(grant);
    if (token === undefined) throw new ToolError('AUTHORIZATION_REQUIRED', { message: 'The account was disconnected' });
    const question: GrantToken = { token, refused };
    const reply = await this.#request(question, signal);
    const { kind, value, generation, lives_ms: livesMs } = reply;
    const until = this.clock.monotonic() + livesMs;
    const credential = { kind, value, generation, until, redact: redactorOf(value) };
    if (changes === this.#changes) this.#kept.set(grant, credential);
    return credential;
  }

  async #request(question: GrantToken, signal: AbortSignal): Promise<GrantTokenReply> {
    const until = this.clock.monotonic() + ASK_MS;
    for (;;) {
      const timeoutMs = Math.min(AGAIN_MS, until - this.clock.monotonic());
      try {
        return await this.nats.ask('identity.grant.token', question, { timeoutMs, signal });
      } catch (error) {
        const isSilent = isToolError(error) && error.code === 'DEADLINE_EXCEEDED';
        if (!isSilent || signal.aborted || this.clock.monotonic() + AGAIN_MS >= until) throw error;
      }
    }
  }
}
