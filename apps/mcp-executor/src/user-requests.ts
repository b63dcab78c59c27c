import type { EgressResponse } from '@toolfleet/egress';
import type { UserCredential, UserCredentials } from '@toolfleet/service/executor';
import type { PostMessage } from './http-transport.js';

/** The user that the requests of a session act as. */
export interface TargetUser {
  grant: string;
  /** Header of the credential; default `Authorization: Bearer`. */
  header: string | undefined;
}

const NEVER = new AbortController().signal;

/**
 * Sends the requests of a session with the credential of its user. One that the server refuses with 401 has not run: it is sent once more
 * with another credential.
 */
export class UserRequests {
  constructor(
    private readonly user: TargetUser,
    private readonly credentials: UserCredentials,
  ) {}

  /** `fetch` with the credential. Rejects with ToolError AUTHORIZATION_REQUIRED when there is none that the server takes. */
  wrap(next: typeof fetch): typeof fetch {
    return (input, init) =>
      this.#send(
        init?.signal ?? NEVER,
        (headers) => {
          const all = new Headers(init?.headers);
          for (const [name, value] of Object.entries(headers)) all.set(name, value);
          return next(input, { ...init, headers: all });
        },
        async (response) => void (await response.body?.cancel()),
      );
  }

  /** The same for the POST of a call. */
  post(next: PostMessage): PostMessage {
    return (body, headers, signal) =>
      this.#send(
        signal,
        (own) => next(body, { ...headers, ...own }, signal),
        async (response: EgressResponse) => void (await response.body.text()),
      );
  }

  async #send<R extends { status: number }>(
    signal: AbortSignal,
    send: (headers: Record<string, string>) => Promise<R>,
    discard: (response: R) => Promise<void>,
  ): Promise<R> {
    const { grant } = this.user;
    const credential = await this.credentials.get(grant, signal);
    const response = await send(this.#headers(credential));
    if (response.status !== 401) return response;
    const other = await this.credentials.get(grant, signal, credential.generation);
    await discard(response);
    return send(this.#headers(other));
  }

  #headers({ value }: UserCredential): Record<string, string> {
    const { header } = this.user;
    if (header !== undefined && header.toLowerCase() !== 'authorization') return { [header.toLowerCase()]: value };
    return { authorization: /^(bearer|basic|token) /i.test(value) ? value : `Bearer ${value}` };
  }
}
